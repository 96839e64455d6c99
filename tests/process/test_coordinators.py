"""A chief that coordinates workers and a parameter server: whose end it survives, and how the run ends."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.launching import Launch, program

Start = Callable[..., Launch]
Servers = Callable[..., Launch]
SERVERS = 4
"""Tasks that listen: the chief, two workers, a parameter server."""


@pytest.fixture
def enough(tmp_path: Path) -> Path:
    """The chief is done when this file is there."""
    return tmp_path / "enough"


@pytest.fixture
def coordinated(launch: Start, cluster: Callable[..., tuple[str, str]], enough: Path) -> Servers:
    """Start it and wait until all tasks serve."""

    def start(max_restarts: int = 0, **timeouts: Any) -> Launch:
        restart = {"max_restarts": max_restarts, "backoff": "100ms"}
        options = cluster(tasks={"chief": 1, "worker": 2, "ps": 1}, timeouts=timeouts, restart=restart)
        started = launch(*options, *program("coordinated", str(enough)))
        started.await_event("task_listening", count=SERVERS)
        return started

    return start


def test_the_run_is_done_when_the_chief_is(coordinated: Servers, enough: Path) -> None:
    started = coordinated()
    enough.touch()

    assert started.succeeded()
    assert "stopping" not in started.stderr
    started.await_nothing_left()


def test_a_worker_that_is_killed_is_started_again_alone_at_its_port(coordinated: Servers, enough: Path) -> None:
    started = coordinated(max_restarts=1)
    started.worker("worker-1").kill()
    started.await_event("task_listening", count=SERVERS + 1)
    enough.touch()

    assert started.succeeded()
    starts = Counter(each["task"] for each in started.events if each["type"] == "task_started")
    assert starts == {"chief-0": 1, "worker-0": 1, "worker-1": 2, "ps-0": 1}
    first, second = started.log("worker-1").splitlines()
    assert first == second
    assert "the chief goes on; worker 1 is started again in 0.1 s (restart 1 of 1)" in started.stderr
    assert ", after 1 restart" in started.stderr
    assert started.run_state["result"]["restarts"] == 1


def test_the_chief_goes_on_without_a_worker_that_does_not_come_back(coordinated: Servers, enough: Path) -> None:
    started = coordinated()
    started.worker("worker-0").kill()
    started.await_event("task_exited")
    enough.touch()

    assert started.succeeded()
    assert "worker 0 on localhost was killed by SIGKILL" in started.stderr
    assert "the chief goes on without it" in started.stderr


def test_with_the_last_worker_the_run_fails(coordinated: Servers) -> None:
    started = coordinated()
    started.worker("worker-0").kill()
    started.await_event("task_exited")
    started.worker("worker-1").kill()

    assert started.wait() == 1
    assert "no worker is left, and the chief would wait for one for ever" in started.stderr
    assert started.run_state["result"]["root_cause"]["task"].startswith("worker")
    started.await_nothing_left()


def test_a_parameter_server_that_is_killed_ends_the_attempt(coordinated: Servers) -> None:
    started = coordinated()
    started.worker("ps-0").kill()

    assert started.wait() == 1
    assert started.run_state["result"]["root_cause"]["task"] == "ps-0"


def test_a_restart_of_the_gang_and_one_of_a_worker_count_alike(coordinated: Servers) -> None:
    started = coordinated(max_restarts=2)
    started.worker("worker-1").kill()
    started.await_event("task_listening", count=SERVERS + 1)
    started.worker("ps-0").kill()
    started.await_event("task_listening", count=2 * SERVERS + 1)
    started.worker("ps-0").kill()

    assert started.wait() == 1
    assert "(restart 2 of 2)" in started.stderr
    assert not (started.run_directory / "attempt-2").exists()


def test_ctrl_c_ends_a_run_whose_worker_is_to_be_started_again(coordinated: Servers) -> None:
    started = coordinated(max_restarts=9)
    started.worker("worker-1").kill()
    started.await_event("task_exited")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    started.await_nothing_left()


def test_a_worker_that_fails_before_it_serves_ends_the_attempt(
    launch: Start, cluster: Callable[..., tuple[str, str]], enough: Path
) -> None:
    options = cluster(tasks={"chief": 1, "worker": 2, "ps": 1})
    started = launch(*options, *program("coordinated", str(enough), "no-server"))

    assert started.wait() == 1
    assert "worker 1 on localhost failed (exit code 1): RuntimeError: cannot read my settings" in started.last_words
