"""Nothing that a run started outlives it, whatever it tries. (The fixture `mark` looks after every test.)"""

from __future__ import annotations

import signal
from collections.abc import Callable

import psutil
import pytest
from support.launching import Launch, await_true, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]

STRAYS = ("child", "session", "group", "deaf", "daemon", "nohup", "stopped")
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@pytest.mark.parametrize("stray", STRAYS)
def test_no_stray_outlives_a_worker_that_ends_well(launch: Start, cluster: Cluster, stray: str) -> None:
    started = launch(*cluster(1), *program("strays", "0", stray))

    assert started.succeeded()
    assert not started.alive()


@pytest.mark.parametrize("number", STOPS)
def test_no_stray_outlives_the_stop_of_the_launcher(launch: Start, cluster: Cluster, number: int) -> None:
    started = launch(*cluster(1, timeouts={"grace": "100ms"}), *program("strays", "stay", *STRAYS))
    started.await_log(b"ready", "worker-0")
    started.signal(number)
    started.wait()

    if number == signal.SIGKILL:
        started.await_nothing_left()
    assert not started.alive()


def test_no_stray_of_any_kind_outlives_a_failure(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(2), *program("strays", "3", *STRAYS))

    assert started.wait() == 1
    assert not started.alive()


@pytest.mark.parametrize("then", ["0", "stay"])
def test_processes_that_hop_from_pid_to_pid_are_caught(launch: Start, cluster: Cluster, then: str) -> None:
    started = launch(*cluster(1, timeouts={"grace": "100ms"}), *program("storm", then))
    started.await_log(b"ready", "worker-0")
    started.signal(signal.SIGTERM)

    assert started.wait() in {0, 143}
    assert not started.alive()


def test_processes_that_hop_are_caught_when_the_launcher_is_killed(launch: Start) -> None:
    started = launch("--workers", "1", *program("storm", "stay"))
    started.await_log(b"ready", "worker-0")
    started.signal(signal.SIGKILL)

    started.await_nothing_left()


def test_no_zombie_gathers_while_workers_run(launch: Start) -> None:
    """Orphans of a worker become the agent's children: it must collect them."""
    script = "for i in $(seq 50); do (sh -c 'exec true' &) ; done; echo ready; exec sleep 1000"
    started = launch("--workers", "1", "--", "sh", "-c", script)
    started.await_log(b"ready", "worker-0")
    agent = started.named("launch-agent")
    worker = started.worker("worker-0")

    await_true(lambda: agent.children(recursive=True) == [worker], "an agent without dead children")
    started.signal(signal.SIGTERM)
    assert started.wait() == 143


def test_the_agent_and_the_guard_end_before_the_launcher(launch: Start) -> None:
    started = launch("--workers", "1", *program("stay", "die"))
    started.await_log(b"ready", "worker-0")
    pair = [started.named("launch-agent"), started.named("launch-guard")]
    started.signal(signal.SIGTERM)
    started.wait()

    assert not [process for process in pair if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def test_only_the_named_files_are_left(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(2), *program("strays", "0", "daemon"))
    assert started.succeeded()

    below = started.run_directory
    files = {str(path.relative_to(below)) for path in below.rglob("*") if path.is_file()}
    assert files == {
        "run.json",
        "lock",
        "cluster.yaml",
        "events.jsonl",
        "attempt-0/plan.json",
        "attempt-0/worker-0.log",
        "attempt-0/worker-1.log",
    }
