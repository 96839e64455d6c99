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
KERAS_FIX = Path(__file__).resolve().parents[2] / "training" / "keras_fix"
COPY = "somebodys_copy"
STALL = f"{COPY}.stall"
DROPPING = "tf-launch: drops tf.data iterators"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With a copy of the Keras fix, and nothing else of ours."""
    directory = tmp_path_factory.mktemp("path")
    shutil.copytree(KERAS_FIX, directory / COPY)
    return {"PYTHONPATH": str(directory)}


@pytest.fixture(scope="module")
def train(gang: Callable[..., Any], path: dict[str, str]) -> Callable[..., dict[str, Any]]:
    """What worker 0 of n (0: one process without strategy) tells; the fix for several workers is enabled."""

    def run(n: int, kind: str, *modules: str) -> dict[str, Any]:
        ended = gang(n, ["python", str(SCRIPT), kind, COPY, *modules], env=path, timeout=300)
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
    gang: Callable[..., Any], path: dict[str, str], how: str, end: tuple[int, str]
) -> None:
    script = str(SCRIPT.with_name("iterator_that_is_never_dropped.py"))
    [ended] = gang(0, ["python", script, STALL, how], env=path, timeout=120)
    assert (ended.exit_code, ended.output.splitlines()[-1]) == end, ended.output[-4000:]


def test_launch_brings_it_into_a_worker(gang: Callable[..., Any]) -> None:
    [ended] = gang(1, ["python", str(SCRIPT), "dataset"], keras_fix=True, timeout=300)
    assert json.loads(last_line(ended.output))["threads"] == [DROPPING]
