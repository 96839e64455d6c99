"""The launcher, the agent or the guard is killed or frozen: the workers end, and whoever is left says why."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest
from support.launching import Launch, await_true, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]

PROGRAMS = {
    "plain": program("stay", "die"),
    "deaf": program("stay", "ignore"),
    "with strays": program("strays", "stay", "child", "session", "deaf", "daemon", "stopped"),
}
programs = pytest.mark.parametrize("command", PROGRAMS.values(), ids=PROGRAMS)


@programs
def test_nothing_is_left_when_the_launcher_is_killed(launch: Start, command: tuple[str, ...]) -> None:
    started = launch("--workers", "2", *command)
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(signal.SIGKILL)

    started.await_nothing_left()


@programs
@pytest.mark.parametrize("victim", ["launch-agent", "launch-guard"])
def test_nothing_is_left_when_half_of_the_pair_is_killed(launch: Start, command: tuple[str, ...], victim: str) -> None:
    started = launch("--workers", "2", *command)
    started.await_log(b"ready", "worker-0", "worker-1")
    started.named(victim).kill()

    assert started.wait() == 1
    started.await_nothing_left()
    assert "localhost was lost" in started.last_words
    assert started.run_state["state"] == "failed"


@programs
def test_nothing_is_left_when_agent_and_guard_are_killed_in_one_stroke(launch: Start, command: tuple[str, ...]) -> None:
    started = launch("--workers", "2", *command)
    started.await_log(b"ready", "worker-0", "worker-1")
    kill_all(started.named("launch-agent").pid, started.named("launch-guard").pid)

    assert started.wait() == 1
    started.await_nothing_left()
    assert "localhost was lost" in started.last_words


def test_no_worker_is_left_when_launcher_agent_and_guard_are_killed_in_one_stroke(launch: Start) -> None:
    started = launch("--workers", "2", *program("stay", "ignore"))
    started.await_log(b"ready", "worker-0", "worker-1")
    kill_all(started.process.pid, started.named("launch-agent").pid, started.named("launch-guard").pid)

    started.await_nothing_left()


def kill_all(*pids: int) -> None:
    """SIGKILL for all from one process, as `pkill -9 -f` sends it. One may have ended with the one before it."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("victim", ["launch-agent", "launch-guard"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_agent_that_is_told_to_end_ends_the_run(launch: Start, victim: str, number: int) -> None:
    started = launch("--workers", "2", *program("stay", "die"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.named(victim).send_signal(number)

    assert started.wait() == 1
    assert "localhost was lost" in started.last_words


def test_signals_do_not_keep_the_guard_from_cleaning_up(launch: Start) -> None:
    started = launch("--workers", "1", *program("storm", "stay"))
    started.await_log(b"ready", "worker-0")
    guard = started.named("launch-guard").pid
    started.named("launch-agent").kill()
    for _ in range(200):
        try:
            os.kill(guard, signal.SIGTERM)
        except ProcessLookupError:
            break

    assert started.wait() == 1
    started.await_nothing_left()


def test_an_agent_killed_during_the_backoff_is_called_again(launch: Start, cluster: Cluster) -> None:
    options = cluster(restart={"max_restarts": 3, "backoff": "10m"})
    started = launch(*options, "--", "sh", "-c", "[ $LAUNCH_ATTEMPT = 1 ] || exit 5")
    started.await_event("host_empty")
    started.named("launch-agent").kill()

    assert started.succeeded()
    assert "localhost was lost: " in started.stderr
    assert started.run_state["result"]["attempts"] == 2


def test_the_workers_end_when_the_launcher_is_frozen(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(timeouts={"lease": "2s"}), *program("stay", "ignore"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(signal.SIGSTOP)
    started.await_only_the_launcher()
    started.signal(signal.SIGCONT)

    assert started.wait() == 1
    assert "localhost was lost: no sign of life from the launcher for 2 s" in started.last_words


def test_a_console_that_takes_nothing_does_not_cost_the_lease(launch: Start, cluster: Cluster) -> None:
    options = cluster(timeouts={"lease": "2s"})
    started = launch(*options, "--", "sh", "-c", '"$@"; sleep 2.5; touch done', "sh", *program("flood", "200000")[1:])
    await_true((started.runs.parent / "done").exists, "a run of more than one lease, while nobody reads")

    assert started.succeeded()


def test_nothing_is_left_when_the_launcher_is_killed_with_its_pipes_full(launch: Start) -> None:
    started = launch("--workers", "2", *program("flood", "3000000"))
    await_true(lambda: started.log_size("worker-1") > 4_000_000, "more output than fits into the pipes")
    started.signal(signal.SIGKILL)

    started.await_nothing_left()


def test_nothing_is_left_when_a_frozen_launcher_with_full_pipes_loses_its_lease(
    launch: Start, cluster: Cluster
) -> None:
    _, *flood = program("flood", "3000000")
    started = launch(*cluster(timeouts={"lease": "2s"}), "--", "sh", "-c", '"$@"; exec sleep 1000', "sh", *flood)
    await_true(lambda: started.log_size("worker-1") > 4_000_000, "more output than fits into the pipes")
    started.signal(signal.SIGSTOP)
    started.await_only_the_launcher()
    started.signal(signal.SIGCONT)

    assert started.wait() == 1


def test_what_waits_for_a_slow_console_stays_in_files_not_in_memory(launch: Start) -> None:
    started = launch("--workers", "2", *program("flood", "1500000", "done"))
    for task in ("worker-0", "worker-1"):
        await_true((started.runs.parent / f"done-{task}").exists, "the end of the flood")
    assert started.log_size("worker-0") > 20_000_000
    sizes = {}
    for process in started.alive():
        with suppress(psutil.NoSuchProcess):  # a worker that is done may be gone
            sizes[process.name()] = process.memory_info().rss
    started.signal(signal.SIGKILL)
    started.await_nothing_left()

    assert sizes
    assert all(size < 64 << 20 for size in sizes.values()), sizes


def test_a_worker_killed_from_outside_takes_the_gang_with_it(launch: Start) -> None:
    started = launch("--workers", "3", *program("stay", "die"))
    started.await_log(b"ready", "worker-0", "worker-1", "worker-2")
    started.worker("worker-1").kill()

    assert started.wait() == 1
    assert "worker 1 on localhost was killed by SIGKILL" in started.last_words
