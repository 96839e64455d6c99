"""What a shell had started before the launcher, or an agent, took its place is not ours: it outlives the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from support.launching import Launch, await_true, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]

EARLIER = """
env -u TF_LAUNCH_TEST_MARK "$0" "$1" </dev/null >/dev/null 2>&1 &
shift
until [ -s pids ] && [ "$(wc -l <pids)" = 2 ]; do sleep 0.01; done
exec "$@"
"""
ALL = 4


class Earlier:
    """The processes that were not started by the run."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def pids(self) -> list[int]:
        path = self.place / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def go_on(self) -> None:
        """Let the child leave its orphans."""
        (self.place / "under-way").touch()
        await_true(lambda: len(self.pids()) == ALL, "the start of all of them")

    def alive(self) -> list[int]:
        return [pid for pid in self.pids() if psutil.pid_exists(pid)]


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[Earlier]:
    earlier = Earlier(tmp_path)
    yield earlier
    for pid in earlier.pids():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def behind() -> tuple[str, ...]:
    """The words that start a program in the place of a shell which has a child."""
    return ("sh", "-c", EARLIER, *program("earlier")[1:])


WORKER = ("--", "sh", "-c", "until [ -e go-on ]; do sleep 0.01; done")


def test_children_from_before_the_launcher_outlive_a_run(
    launch: Start, cluster: Cluster, earlier: Earlier, behind: tuple[str, ...]
) -> None:
    started = launch(*cluster(2), *WORKER, under=behind)
    started.await_event("task_started", count=2)
    earlier.go_on()
    (earlier.place / "go-on").touch()

    assert started.succeeded()
    assert len(earlier.alive()) == ALL


def test_children_from_before_the_launcher_outlive_a_stop_and_strays_do_not(
    launch: Start, cluster: Cluster, earlier: Earlier, behind: tuple[str, ...]
) -> None:
    strays = program("strays", "stay", "child", "session", "deaf", "daemon", "stopped")
    started = launch(*cluster(1, timeouts={"grace": "100ms"}), *strays, under=behind)
    started.await_log(b"ready", "worker-0")
    earlier.go_on()
    started.signal(signal.SIGTERM)

    assert started.wait() == 143
    assert not started.alive()
    assert len(earlier.alive()) == ALL


def test_strays_end_beside_them_when_agent_and_guard_are_killed_in_one_stroke(
    launch: Start, cluster: Cluster, earlier: Earlier, behind: tuple[str, ...]
) -> None:
    strays = program("strays", "stay", "child", "session", "deaf", "daemon", "stopped")
    started = launch(*cluster(1), *strays, under=behind)
    started.await_log(b"ready", "worker-0")
    earlier.go_on()
    agent, guard = started.named("launch-agent").pid, started.named("launch-guard").pid
    os.kill(guard, signal.SIGSTOP)  # it must not end before its own SIGKILL comes
    for pid in (agent, guard):
        os.kill(pid, signal.SIGKILL)

    assert started.wait() == 1
    started.await_nothing_left()
    assert len(earlier.alive()) == ALL


def test_children_from_before_the_doctor_outlive_it(
    launch: Start, cluster: Cluster, earlier: Earlier, behind: tuple[str, ...], environment: dict[str, str]
) -> None:
    words = [*behind, sys.executable, "-m", "launcher", "doctor", *cluster(1), "--", "true"]
    subprocess.run(words, env=environment, cwd=earlier.place, capture_output=True)

    assert len(earlier.alive()) == 2
