"""What drops the tf.data iterators of a Keras program: the main thread waits there, so it must not be the one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.last_line import last_line

SCRIPT = Path(__file__).parent / "scripts" / "drop_iterators.py"
TRAINING = Path(__file__).resolve().parents[2] / "training"
BOOTSTRAP = TRAINING.parent / "launcher" / "on_host" / "bootstrap"
STALL = str(TRAINING / "keras_stall.py")
DROPPING = "tf-launch: drops tf.data iterators"


@pytest.fixture(scope="module")
def train(gang: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """What worker 0 of n (0: one process without strategy) tells, with a copy of the Keras fix and of nothing else."""
    fix = shutil.copy(TRAINING / "keras_multiworker.py", tmp_path_factory.mktemp("fix"))

    def run(n: int, *argv: str) -> dict[str, Any]:
        env = {"LAUNCH_KERAS_FIX": str(fix), "PYTHONPATH": str(BOOTSTRAP)}
        ended = gang(n, ["python", str(SCRIPT), *argv], env=env, timeout=300)
        assert [worker.exit_code for worker in ended] == [0] * len(ended), ended[0].output[-4000:]
        told: dict[str, Any] = json.loads(last_line(ended[0].output))
        return told

    return run


@pytest.mark.parametrize(("n", "kind"), [(0, "arrays"), (2, "dataset")])
def test_a_thread_of_its_own_drops_the_iterators_and_the_loss_is_the_same_to_the_bit(
    train: Callable[..., dict[str, Any]], n: int, kind: str
) -> None:
    stock, fixed = train(n, kind), train(n, kind, STALL)
    assert stock["threads"] == ["MainThread"]
    assert fixed["threads"] == [DROPPING]
    assert (fixed["loss"], fixed["made"], fixed["tuned"]) == (stock["loss"], stock["made"], [None])


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_pipeline_that_calls_python_is_dropped_as_before_and_has_no_thread_that_tunes_it(
    train: Callable[..., dict[str, Any]], n: int
) -> None:
    told = train(n, "generator", STALL)
    assert (told["threads"], told["tuned"]) == (["MainThread"], [False])


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ("epoch is over", (3, "trained")),
        ("training is stopped", (3, "trained")),
        ("error", (1, "ValueError: bad luck")),
    ],
)
def test_a_process_ends_with_its_exit_code_while_an_iterator_is_not_dropped_yet(
    gang: Callable[..., Any], how: str, end: tuple[int, str]
) -> None:
    [ended] = gang(0, ["python", str(SCRIPT.with_name("iterator_that_is_never_dropped.py")), STALL, how], timeout=120)
    assert (ended.exit_code, ended.output.splitlines()[-1]) == end, ended.output[-4000:]


def test_launch_brings_it_into_a_worker(gang: Callable[..., Any]) -> None:
    [ended] = gang(1, ["python", str(SCRIPT), "dataset"], keras_fix=True, timeout=300)
    assert json.loads(last_line(ended.output))["threads"] == [DROPPING]
