"""Unmodified Keras 3 programs with several workers and the fix that the bootstrap brings, beside one process alone."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
FIX = Path(__file__).resolve().parents[2] / "training" / "keras_multiworker.py"
TRAINER = "keras.src.backend.tensorflow.trainer"
TOLERANCE = 1e-4
REPLACED = "_maybe_symbolic_build, reduce_per_replica, _make_function, _get_metrics_result_or_logs"
WAYS = (
    "datasets_validation_evaluate_predict",
    "arrays_and_steps_per_execution",
    "steps_per_execution_of_unknown_length",
    "generator",
    "dict_inputs_two_outputs_sample_weight",
    "own_train_step",
    "train_on_batch",
    "run_eagerly",
    "batch_normalization",
)
WAYS_OF_THREE = ("arrays_and_steps_per_execution",)

Outcomes = list[dict[str, Any]]


@pytest.fixture(scope="module")
def train(gang: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Outcomes, str]]:
    """Run `many_ways.py` with n workers (0: one process without strategy): what each wrote, and worker 0's output."""

    def run(n: int, ways: Sequence[str] = (), keras_fix: bool = True) -> tuple[Outcomes, str]:
        directory = tmp_path_factory.mktemp("outcomes")
        argv = ["python", str(SCRIPTS / "many_ways.py"), str(directory / "{index}.json"), *ways]
        ended = gang(n, argv, keras_fix=keras_fix, timeout=300)
        assert [worker.exit_code for worker in ended] == [0] * len(ended), ended[0].output[-4000:]
        return [json.loads((directory / f"{i}.json").read_text()) for i in range(len(ended))], ended[-1].output

    return run


@pytest.fixture(scope="module")
def alone(train: Callable[..., tuple[Outcomes, str]]) -> dict[str, Any]:
    """What stock Keras without any strategy arrives at."""
    [outcome], _ = train(0, keras_fix=False)
    return outcome


@pytest.fixture(scope="module")
def pair(train: Callable[..., tuple[Outcomes, str]]) -> tuple[Outcomes, str]:
    """What two workers arrive at, and the last one's output."""
    return train(2)


@pytest.fixture(scope="module")
def trio(train: Callable[..., tuple[Outcomes, str]]) -> Outcomes:
    """What three workers arrive at."""
    return train(3, WAYS_OF_THREE)[0]


def numbers(outcome: Any, at: str = "") -> dict[str, float]:
    """Every number in a structure of dicts and lists that must not depend on the number of workers, by its place."""
    if isinstance(outcome, dict):
        items = [(f"{at}/{key}", value) for key, value in outcome.items() if key != "by_replicas"]
        return {place: n for below, value in items for place, n in numbers(value, below).items()}
    if isinstance(outcome, list):
        return {place: n for i, value in enumerate(outcome) for place, n in numbers(value, f"{at}/{i}").items()}
    return {at: outcome}


@pytest.mark.parametrize("way", WAYS)
def test_two_workers_arrive_at_the_same_bits(pair: tuple[Outcomes, str], way: str) -> None:
    first, second = pair[0]
    assert first[way] == second[way]


@pytest.mark.parametrize("way", WAYS)
def test_two_workers_arrive_where_one_process_does(pair: tuple[Outcomes, str], alone: dict[str, Any], way: str) -> None:
    assert numbers(pair[0][0][way]) == pytest.approx(numbers(alone[way]), abs=TOLERANCE)


@pytest.mark.parametrize("way", WAYS_OF_THREE)
def test_three_workers_arrive_where_one_process_does(trio: Outcomes, alone: dict[str, Any], way: str) -> None:
    for worker in trio:
        assert numbers(worker[way]) == pytest.approx(numbers(alone[way]), abs=TOLERANCE)


def test_a_worker_says_once_what_was_done_for_which_keras(pair: tuple[Outcomes, str]) -> None:
    [line] = [line for line in pair[1].splitlines() if line.startswith("tf-launch:")]
    assert line.startswith("tf-launch: Keras 3.")
    assert line.endswith(f": replaced {REPLACED}")


def test_a_program_that_uses_tf_keras_as_the_tutorials_do_trains(gang: Callable[..., Any]) -> None:
    ended = gang(2, ["python", str(SCRIPTS / "fit_as_in_tutorial.py")], keras_fix=True)
    assert [worker.exit_code for worker in ended] == [0, 0], ended[0].output[-4000:]
    learned = {worker.output.splitlines()[-1] for worker in ended}
    assert len(learned) == 1
    assert len(json.loads(learned.pop())["losses"]) == 2


def test_one_worker_trains_with_the_code_of_keras_itself(gang: Callable[..., Any]) -> None:
    ended = gang(1, ["python", str(SCRIPTS / "enable_alone.py"), str(FIX)])
    assert ended[0].exit_code == 0, ended[0].output[-4000:]
    assert "tf-launch:" not in ended[0].output


FAULTY = """
class TensorFlowTrainer:
    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        maybe_distributed_data_batch = next(iterator)
        self.distribute_strategy.reduce("MEAN", maybe_distributed_data_batch, axis=None)

    def _make_function(self, step_function):
        one_step = tf.function(step_function)
        return tf.while_loop(lambda: tf.cond(1, one_step, one_step))

    def _get_metrics_result_or_logs(self, logs):
        return self.get_metrics_result()

def reduce_per_replica(values, strategy, reduction):
    return strategy.reduce("MEAN", v, axis=0)
"""
SOUND = FAULTY.replace("reduce(", "gather(").replace("tf.cond", "cond").replace("self.get_metrics_result", "fetch")


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
        return load(tmp_path / "trainer.py", TRAINER, monkeypatch)

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
    assert fix.enable() == REPLACED
    replaced = trainer.reduce_per_replica
    assert replaced is not stock
    assert fix.enable() == REPLACED
    assert trainer.reduce_per_replica is replaced


def test_only_what_is_faulty_is_replaced(fix: ModuleType, keras: Callable[..., ModuleType]) -> None:
    trainer = keras(FAULTY.replace("axis=0", "axis=None"))
    stock = trainer.reduce_per_replica
    assert fix.enable() == REPLACED.replace("reduce_per_replica, ", "")
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
