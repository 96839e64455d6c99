"""Unmodified Keras 3 programs with several workers and the fix that the bootstrap brings, beside one process alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
FIX = Path(__file__).resolve().parents[2] / "training" / "keras_multiworker.py"
TOLERANCE = 1e-4
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
        ended = gang(n, argv, keras_fix=keras_fix)
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
    assert ": mended fit, metrics, input, callbacks, optimizers, scalars (21 functions replaced)" in line


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
