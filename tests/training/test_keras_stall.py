"""What drops the tf.data iterators of a Keras program: the main thread waits there, so it must not be the one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "scripts" / "drop_iterators.py"
TRAINING = Path(__file__).resolve().parents[2] / "training"
STALL = str(TRAINING / "keras_stall.py")
DROPPING = "tf-launch: drops tf.data iterators"


@pytest.fixture(scope="module")
def train(gang: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """What worker 0 of n (0: one process without strategy) tells."""

    def run(n: int, *argv: str) -> dict[str, Any]:
        ended = gang(n, ["python", str(SCRIPT), *argv], keras_fix=True, timeout=300)
        assert [worker.exit_code for worker in ended] == [0] * len(ended), ended[0].output[-4000:]
        told: dict[str, Any] = json.loads(ended[0].output.splitlines()[-1])
        return told

    return run


@pytest.mark.parametrize(("n", "kind"), [(0, "arrays"), (0, "dataset"), (1, "dataset"), (2, "dataset"), (2, "arrays")])
def test_a_thread_of_its_own_drops_the_iterators_and_the_loss_is_the_same_to_the_bit(
    train: Callable[..., dict[str, Any]], n: int, kind: str
) -> None:
    stock, fixed = train(n, kind), train(n, kind, STALL)
    assert stock["threads"] == ["MainThread"]
    assert fixed["threads"] == [DROPPING]
    assert (fixed["loss"], fixed["made"]) == (stock["loss"], stock["made"])


def test_a_pipeline_that_calls_python_is_dropped_as_before(train: Callable[..., dict[str, Any]]) -> None:
    assert train(0, "generator", STALL)["threads"] == ["MainThread"]
