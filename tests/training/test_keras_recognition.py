"""Which Keras the fix recognises, and what it says: with modules that look like Keras, and without TensorFlow.

The modules are made up, or made from the sources of each minor version of Keras.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from launcher.run.failure.failure import Evidence
from launcher.run.failure.keras_fix import for_keras_under_several_workers

PARTS = Path(__file__).resolve().parents[2] / "training" / "keras_fix" / "parts.py"
TRAINER = "keras.src.backend.tensorflow.trainer"
SAVING = "keras.src.saving.saving_lib"
OTHERS = ("keras.src.backend.tensorflow.optimizer", "keras.src.backend.tensorflow.core", "keras.src.losses.loss")
MINORS = Path(__file__).with_name("keras-minors.txt")
EDGES = ["3.3", "3.5", "3.6", "3.7", "3.8", "3.10"]
"""The versions in which what is looked at changed; all are looked at with KERAS_WAYS=all."""
LOOKED_AT = [f"3.{minor}" for minor in range(3, 16)] if os.environ.get("KERAS_WAYS") == "all" else EDGES
SERVED = "use Keras 3.3 to 3.15 on TensorFlow 2.16 to 2.21: pip install 'keras>=3.3,<3.16'"

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

def save_model(model, filepath, weights_format="h5"):
    with open(filepath, "wb") as f:
        _save_model_to_fileobj(model, f, weights_format)

def save_weights_only(model, filepath):
    weights_store = H5IOStore(filepath, mode="w")
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
    "open(filepath": "whole(filepath",
    "H5IOStore(": "H5IOStoreOfItsOwn(",
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
    "saving_lib": "save_model save_weights_only",
    "LossScaleOptimizer": "check_finite",
    "TFOptimizer": "_backend_apply_gradients",
    "Variable": "_direct_assign __float__ __int__",
}
ALL = [f"{owner}.{name}" for owner, names in REPLACED.items() for name in names.split()]


@pytest.fixture
def fix(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The package of the fix, loaded anew; to see what is replaced it needs no TensorFlow."""
    for name in loaded("training.keras_fix"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(__version__="2.21.0"))
    yield importlib.import_module("training.keras_fix")
    for name in loaded("training.keras_fix"):
        del sys.modules[name]


@pytest.fixture
def copy(fix: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A copy of the folder, in another place and under another name."""
    shutil.copytree(PARTS.parent, tmp_path / "path" / "somebodys_copy")
    monkeypatch.syspath_prepend(tmp_path / "path")
    yield importlib.import_module("somebodys_copy")
    for name in loaded("somebodys_copy"):
        del sys.modules[name]


def loaded(package: str) -> list[str]:
    """The names of a package and of its modules that have been imported."""
    return [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]


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
        saving = ModuleType(SAVING)
        vars(saving).update({name: vars(module)[name] for name in ("save_model", "save_weights_only")})
        monkeypatch.setitem(sys.modules, SAVING, saving)
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


def test_of_two_copies_the_first_one_is_at_work_and_the_line_names_it(
    fix: ModuleType, copy: ModuleType, keras: Callable[..., ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    keras(FAULTY)
    assert copy.enable() == fix.enable()
    for package in (fix, copy):
        importlib.import_module(f"{package.__name__}.log").announce()
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(f" functions replaced by {copy.edition()})")
    assert copy.edition().split() == ["somebodys_copy", fix.edition().split()[1]]


def test_what_belongs_together_is_replaced_as_a_whole_or_not_at_all(
    fix: ModuleType, keras: Callable[..., ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = keras(FAULTY.replace("self.get_metrics_result()", "fetch()"))
    stock = trainer.reduce_per_replica
    assert fix.enable() is None
    assert "(TensorFlowTrainer._get_metrics_result_or_logs changed, of " in capsys.readouterr().err
    assert trainer.reduce_per_replica is stock


def test_only_what_is_faulty_is_replaced(fix: ModuleType, keras: Callable[..., ModuleType]) -> None:
    trainer = keras(FAULTY.replace("axis=0", "axis=None"))
    stock = trainer.reduce_per_replica
    assert fix.enable() == ", ".join(each for each in ALL if each != "trainer.reduce_per_replica")
    assert trainer.reduce_per_replica is stock


@pytest.mark.parametrize(
    ("trainer", "said"),
    [
        (FAULTY.replace("(values, strategy, reduction)", "(values, reduction)"), SERVED),
        (FAULTY.replace("TensorFlowTrainer", "AnotherTrainer"), SERVED),
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


@pytest.mark.parametrize("version", ["3.0.5", "3.2.1", "4.0.0"])
def test_a_keras_that_cannot_be_served_is_left_alone_and_one_line_names_those_that_can(
    fix: ModuleType, keras: Callable[..., ModuleType], capsys: pytest.CaptureFixture[str], version: str
) -> None:
    keras(FAULTY, version)
    assert fix.enable() is None
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tf-launch: Keras {version} cannot be mended for MultiWorkerMirroredStrategy (")
    assert line.endswith(SERVED)
    remedy = for_keras_under_several_workers(Evidence("unsupported type PerReplica", "here", log=[line]))
    assert remedy is not None
    assert SERVED.partition(":")[0] in remedy


def test_an_older_tensorflow_than_those_that_can_be_served_is_named(
    fix: ModuleType,
    keras: Callable[..., ModuleType],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(__version__="2.15.1"))
    keras(FAULTY)
    assert fix.enable() is None
    [line] = capsys.readouterr().err.splitlines()
    assert "(TensorFlow 2.15.1 is too old)" in line
    assert line.endswith(SERVED)


# ---- the sources of each minor version
SOURCES = {
    "TensorFlowTrainer": ("trainers/trainer.py:Trainer", "backend/tensorflow/trainer.py:TensorFlowTrainer"),
    "TFEpochIterator": ("backend/tensorflow/trainer.py:TFEpochIterator",),
    "callbacks_module.CallbackList": ("callbacks/callback_list.py:CallbackList",),
    "callbacks_module.BackupAndRestore": ("callbacks/backup_and_restore.py:BackupAndRestore",),
    "callbacks_module.ModelCheckpoint": ("callbacks/model_checkpoint.py:ModelCheckpoint",),
    "optimizers_module.LossScaleOptimizer": ("optimizers/loss_scale_optimizer.py:LossScaleOptimizer",),
    "metrics_module.Mean": ("metrics/reduction_metrics.py:Mean",),
    "TFOptimizer": ("optimizers/base_optimizer.py:BaseOptimizer", "backend/tensorflow/optimizer.py:TFOptimizer"),
    "Variable": (
        "backend/common/variables.py:KerasVariable",
        "backend/common/variables.py:Variable",
        "backend/tensorflow/core.py:Variable",
    ),
    "reduce_per_replica": ("backend/tensorflow/trainer.py:reduce_per_replica",),
    "reduce_values": ("losses/loss.py:reduce_values",),
    "save_model": ("saving/saving_lib.py:save_model",),
    "save_weights_only": ("saving/saving_lib.py:save_weights_only",),
}
"""Where Keras has what is looked at; of several classes the later ones are derived from the earlier ones."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, zipfile.ZipFile]:
    """By version, the newest release of each minor version of Keras that is looked at."""
    lines = MINORS.read_text().splitlines()
    requirements = [line for minor in LOOKED_AT for line in lines if line.startswith(f"keras=={minor}.")]
    with ThreadPoolExecutor(4) as several:
        places = several.map(downloaded, requirements, (tmp_path_factory.mktemp("keras") for _ in requirements))
        return {place.name.split("-")[1]: zipfile.ZipFile(place) for place in places}


def downloaded(requirement: str, directory: Path) -> Path:
    (directory / "requirement.txt").write_text(requirement)
    pip = [sys.executable, "-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "--no-deps", "-d", directory, "-r", directory / "requirement.txt"], check=True)
    [wheel] = directory.glob("*.whl")
    return wheel


def trainer_of(wheel: zipfile.ZipFile, names: set[str]) -> str:
    """A module with these functions of Keras, without what surrounds them."""
    lines: dict[str, list[str]] = {}
    for place, origins in SOURCES.items():
        outer, _, inner = place.rpartition(".")
        found = functions_of(wheel, origins, names)
        if not inner[0].isupper():
            lines.setdefault("", []).extend(found.values())
        else:
            body = "\n".join(found.values()) or "pass"
            lines.setdefault(outer, []).append(f"class {inner}:\n{textwrap.indent(body, '    ')}\n")
    modules = (f"class {outer}:\n" + textwrap.indent("\n".join(of), "    ") for outer, of in lines.items() if outer)
    return "\n".join([*lines[""], *modules])


def functions_of(wheel: zipfile.ZipFile, origins: tuple[str, ...], names: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for origin in origins:
        path, _, name = origin.partition(":")
        if f"keras/src/{path}" in wheel.namelist():
            source = wheel.read(f"keras/src/{path}").decode()
            for node in ast.parse(source).body:
                if getattr(node, "name", "") == name:
                    inside = node.body if isinstance(node, ast.ClassDef) else [node]
                    found |= {each.name: text for each, text in texts(source, inside) if each.name in names}
    return found


def texts(source: str, nodes: list[ast.stmt]) -> Iterator[tuple[ast.FunctionDef, str]]:
    """Functions, without decorators."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            text = ast.get_source_segment(source, node) or ""
            yield node, textwrap.dedent(" " * node.col_offset + text) + "\n"


@pytest.mark.parametrize("minor", LOOKED_AT)
def test_the_sources_of_every_minor_version_are_recognised(
    fix: ModuleType,
    keras: Callable[..., ModuleType],
    capsys: pytest.CaptureFixture[str],
    wheels: dict[str, zipfile.ZipFile],
    minor: str,
) -> None:
    [version] = [each for each in wheels if each.startswith(f"{minor}.")]
    sources = trainer_of(wheels[version], set(re.findall(r'"(\w+)"', PARTS.read_text())))
    trainer = keras(sources, version)
    parts = importlib.import_module(f"{fix.__name__}.parts")
    wanted = {part.title for part in parts.parts_of(trainer, fix.recognising.minor_of(version))}
    replaced = fix.enable()
    assert capsys.readouterr().err == ""
    assert set(replaced.split(", ")) == wanted
