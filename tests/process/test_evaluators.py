"""An evaluator beside programs that train: it sees the last checkpoint, and the run ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from support.launching import PROGRAMS, Launch

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
SAVES = 'mkdir -p "$LAUNCH_OUTPUT_DIR/ckpt"; echo saved > "$LAUNCH_OUTPUT_DIR/ckpt/step-9.index"'
EVALUATES = [sys.executable, str(PROGRAMS / "evaluate.py")]


def of_two(cluster: Cluster, evaluator: list[str], limit: str = "60s", **top: object) -> tuple[str, str]:
    """A chief that saves a checkpoint, and an evaluator beside it."""
    commands = {"chief": ["sh", "-c", SAVES], "evaluator": evaluator}
    tasks = {"chief": 1, "evaluator": 1}
    return cluster(tasks=tasks, timeouts={"evaluator": limit}, command="true", per_task=commands, **top)


def test_a_run_ends_once_its_evaluator_has_seen_the_last_checkpoint(launch: Start, cluster: Cluster) -> None:
    launched = launch(*of_two(cluster, EVALUATES))

    assert launched.succeeded()
    assert b"evaluated step-9.index" in launched.log("evaluator-0")
    assert "evaluator 0 has 60 s for the last checkpoint" in launched.stderr
    assert "stopping" not in launched.stderr


def test_an_evaluator_that_works_on_and_on_is_stopped_when_its_time_is_up(launch: Start, cluster: Cluster) -> None:
    launched = launch(*of_two(cluster, ["sh", "-c", "while :; do sleep 0.2; done"], limit="4s"))

    assert launched.succeeded()
    assert "was not done with the last checkpoint after 4 s (timeouts.evaluator)" in launched.stderr


def test_an_evaluator_that_gets_no_time_is_stopped_at_once(launch: Start, cluster: Cluster) -> None:
    launched = launch(*of_two(cluster, ["sleep", "1000"], limit="0"))

    assert launched.succeeded()
    assert "last checkpoint" not in launched.stderr


def test_ctrl_c_ends_the_wait_for_an_evaluator(launch: Start, cluster: Cluster) -> None:
    launched = launch(*of_two(cluster, ["sleep", "1000"], limit="10m"))
    launched.await_event("task_exited")
    launched.signal(signal.SIGINT)

    assert launched.wait() == 130
    launched.await_nothing_left()


def test_an_evaluator_that_fails_is_named_and_nothing_is_started_again(launch: Start, cluster: Cluster) -> None:
    fails = [sys.executable, "-c", "raise ValueError('no such metric')"]
    launched = launch(*of_two(cluster, fails, restart={"max_restarts": 2}))

    assert launched.wait() == 1
    assert "evaluator 0 on localhost failed (exit code 1): ValueError: no such metric" in launched.last_words
    assert not (launched.run_directory / "attempt-1").exists()
