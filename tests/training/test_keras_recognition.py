"""Which Keras the fix recognises, and what it says: with modules that look like Keras, and without TensorFlow."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

FIX = Path(__file__).resolve().parents[2] / "training" / "keras_multiworker.py"
TRAINER = "keras.src.backend.tensorflow.trainer"
OTHERS = ("keras.src.backend.tensorflow.optimizer", "keras.src.backend.tensorflow.core")

FAULTY = """
class TensorFlowTrainer:
    def fit(self, x=None, y=None):
        return callbacks_module.CallbackList(model=self)

    def evaluate(self, x=None, y=None):
        return callbacks_module.CallbackList(model=self)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        maybe_distributed_data_batch = next(iterator)
        self.distribute_strategy.reduce("MEAN", maybe_distributed_data_batch, axis=None)

    def make_predict_function(self, force=False):
        self.predict_function = predict_function

    def _make_function(self, step_function):
        one_step = tf.function(lambda data: reduce_per_replica(step_function(data)))
        return tf.while_loop(lambda: tf.cond(1, one_step, one_step))

    def predict_on_batch(self, x):
        return self.predict_function([(x,)])

    def _get_metrics_result_or_logs(self, logs):
        return self.get_metrics_result()

class TFEpochIterator:
    def __init__(self, distribute_strategy=None, *args, **kwargs):
        self._distributed_dataset = dataset

    def _get_iterator(self):
        return self._distributed_dataset

class callbacks_module:
    class CallbackList:
        def __init__(self, callbacks=None, add_history=False, add_progbar=False, model=None, **params):
            self.set_model(model)

        def on_train_begin(self, logs=None):
            callback.on_train_begin(logs)

        def on_train_batch_end(self, batch, logs=None):
            self._on_train_batch_end(batch, logs)

        def on_epoch_end(self, epoch, logs=None):
            callback.on_epoch_end(epoch, logs)

        def on_test_begin(self, logs=None):
            callback.on_test_begin(logs)

        def on_test_end(self, logs=None):
            callback.on_test_end(logs)

    class BackupAndRestore:
        def on_train_begin(self, logs=None):
            self._load_model()

    class ModelCheckpoint:
        def _save_model(self, epoch, batch, logs):
            self.model.save(filepath)

class optimizers_module:
    class LossScaleOptimizer:
        def check_finite(self, grads):
            return ops.isfinite(grads)

class TFOptimizer:
    def _backend_apply_gradients(self, grads, trainable_variables):
        ops.cond(is_update_step, 1, 2)
        ops.cond(should_overwrite_model_vars, 1, 2)

class Variable:
    def _direct_assign(self, value):
        self._value.assign(tf.cast(value, self._value.dtype))

    def __float__(self):
        return float(self.value)

    def __int__(self):
        return int(self.value)

def reduce_per_replica(values, strategy, reduction):
    return strategy.reduce("MEAN", v, axis=0)
"""
SOUND = FAULTY.replace("(lambda data: reduce_per_replica(step_function(data)))", "(step_function)")
for fault, mended in {
    "maybe_distributed_data_batch": "data_batch",
    "self.predict_function(": "self.predict_once(",
    "self.predict_function =": "self.predict_built =",
    "return self.get_metrics_result()": "return fetch(self)",
    "callbacks_module.CallbackList(": "callbacks_of_workers(",
    "= dataset": "= shard(dataset)",
    "return self._distributed_dataset": "return self.dataset",
    "self.set_model(model)": "self.model = model",
    "            callback.on_": "            each_callback.in_unison.on_",
    "self._on_train_batch_end(": "self._stop_alike(",
    "self._load_model()": "self._load_model_of_chief()",
    "self.model.save(": "self.model.save_by_chief(",
    "ops.isfinite(": "ops.is_finite_everywhere(",
    "ops.cond(": "ops.cond_across(",
    "self._value.assign(": "self._value.assign_unread(",
    "float(self": "float(self.replica",
    "int(self": "int(self.replica",
    "axis=0": "axis=None",
}.items():
    SOUND = SOUND.replace(fault, mended)
REPLACED = {
    "TensorFlowTrainer": (
        "fit evaluate _maybe_symbolic_build make_predict_function _make_function predict_on_batch"
        " _get_metrics_result_or_logs"
    ),
    "trainer": "reduce_per_replica",
    "TFEpochIterator": "__init__ _get_iterator",
    "CallbackList": "__init__ on_train_begin on_train_batch_end on_epoch_end on_test_begin on_test_end",
    "BackupAndRestore": "on_train_begin",
    "ModelCheckpoint": "_save_model",
    "LossScaleOptimizer": "check_finite",
    "TFOptimizer": "_backend_apply_gradients",
    "Variable": "_direct_assign __float__ __int__",
}
ALL = [f"{owner}.{name}" for owner, names in REPLACED.items() for name in names.split()]


@pytest.fixture
def fix(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The file of the fix, which needs no TensorFlow to be imported, loaded anew."""
    return load(FIX, "keras_multiworker_anew", monkeypatch)


@pytest.fixture
def keras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Put a Keras in place that looks as told, and return its trainer module."""

    def install(trainer: str, version: str = "3.99.0", backend: str = "tensorflow") -> ModuleType:
        stand_in = SimpleNamespace(__version__=version, config=SimpleNamespace(backend=lambda: backend))
        monkeypatch.setitem(sys.modules, "keras", stand_in)
        (tmp_path / "trainer.py").write_text(trainer)
        module = load(tmp_path / "trainer.py", TRAINER, monkeypatch)
        for name in OTHERS:
            monkeypatch.setitem(sys.modules, name, module)
        return module

    return install


def load(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a file under a name for the length of a test."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_every_known_fault_is_replaced_and_enabling_twice_changes_nothing(
    fix: ModuleType, keras: Callable[..., ModuleType]
) -> None:
    trainer = keras(FAULTY)
    stock = trainer.reduce_per_replica
    assert fix.enable() == ", ".join(ALL)
    replaced = trainer.reduce_per_replica
    assert replaced is not stock
    assert fix.enable() == ", ".join(ALL)
    assert trainer.reduce_per_replica is replaced


def test_what_belongs_together_is_replaced_as_a_whole_or_not_at_all(
    fix: ModuleType, keras: Callable[..., ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = keras(FAULTY.replace("self.get_metrics_result()", "fetch()"))
    stock = trainer.reduce_per_replica
    assert fix.enable() is None
    assert "not recognised (TensorFlowTrainer._get_metrics_result_or_logs" in capsys.readouterr().err
    assert trainer.reduce_per_replica is stock


def test_only_what_is_faulty_is_replaced(fix: ModuleType, keras: Callable[..., ModuleType]) -> None:
    trainer = keras(FAULTY.replace("axis=0", "axis=None"))
    stock = trainer.reduce_per_replica
    assert fix.enable() == ", ".join(each for each in ALL if each != "trainer.reduce_per_replica")
    assert trainer.reduce_per_replica is stock


@pytest.mark.parametrize(
    ("trainer", "said"),
    [
        (FAULTY.replace("(values, strategy, reduction)", "(values, reduction)"), "not recognised"),
        (FAULTY.replace("TensorFlowTrainer", "AnotherTrainer"), "not recognised"),
        (SOUND, "none of the known faults"),
    ],
)
def test_a_keras_that_looks_different_is_left_alone_and_that_is_said(
    fix: ModuleType, keras: Callable[..., ModuleType], capsys: pytest.CaptureFixture[str], trainer: str, said: str
) -> None:
    before = dict(vars(keras(trainer)))
    assert fix.enable() is None
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("tf-launch: Keras 3.99.0 ")
    assert said in line
    assert vars(sys.modules[TRAINER]).get("reduce_per_replica") is before["reduce_per_replica"]


@pytest.mark.parametrize("other", [{"version": "2.15.0"}, {"backend": "jax"}])
def test_keras_2_and_other_backends_are_left_alone_in_silence(
    fix: ModuleType, keras: Callable[..., ModuleType], capsys: pytest.CaptureFixture[str], other: dict[str, str]
) -> None:
    keras(FAULTY, **other)
    assert (fix.enable(), capsys.readouterr().err) == (None, "")
