"""Workers that only wait, as TensorFlow does for a peer that is missing."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from launching import Launch, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
PATIENT = {"grace": "10m", "failure_grace": "10m"}


def last_signals(started: Launch) -> dict[str, int | None]:
    return {each["task"]: each["signal"] for each in started.events if each["type"] == "task_exited"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_that_all_wait_in_tensorflow_do_not_take_the_whole_grace(
    launch: Start, cluster: Cluster, number: int
) -> None:
    started = launch(*cluster(timeouts=PATIENT), *program("library", "wait"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(number)

    assert started.wait() == 128 + number
    assert "worker 0 and worker 1 only waited in TensorFlow for 2 s: ended" in started.stderr
    assert last_signals(started) == {"worker-0": signal.SIGKILL, "worker-1": signal.SIGKILL}


@pytest.mark.parametrize(("manner", "done"), [("save", b"saved"), ("asleep", b"slept")])
def test_a_worker_that_saves_or_sleeps_gets_all_of_the_grace_and_its_peers_with_it(
    launch: Start, cluster: Cluster, manner: str, done: bytes
) -> None:
    started = launch(*cluster(timeouts=PATIENT), *program("library", "wait", manner))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert done in started.log("worker-1")
    assert "worker 0 only waited in TensorFlow for 2 s: ended" in started.stderr
    assert last_signals(started) == {"worker-1": None, "worker-0": signal.SIGKILL}


def test_a_program_without_tensorflow_keeps_the_whole_grace(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(timeouts={"grace": "4s"}), *program("library", "plain"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert "only waited" not in started.stderr
    assert not [each for each in started.events if each["type"] == "task_resting"]
