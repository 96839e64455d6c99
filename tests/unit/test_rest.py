"""What counts as rest of a process; the time between two looks is only told, none passes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from support.launching import await_true

from launcher.on_host.agent.processes import descendants, processes
from launcher.on_host.agent.rest import BYTES, Rest, cpu_ticks, has_busy_thread, has_tensorflow, waits_for_lock

Program = Callable[[str], subprocess.Popen[str]]
ON_DEMAND = (
    "import subprocess, sys, time\nprint(flush=True)\nfor line in sys.stdin:\n    exec(line)\n    print(flush=True)\n"
)


@pytest.fixture
def program() -> Iterator[Program]:
    """Start Python with a program; return when it has printed a line."""
    started: list[subprocess.Popen[str]] = []

    def start(text: str = ON_DEMAND) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", text]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def do(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    process.stdout.readline()


def tree(process: subprocess.Popen[str]) -> list[int]:
    return [process.pid, *descendants(process.pid, processes())]


def await_rest(process: subprocess.Popen[str]) -> Rest:
    """A first look, at second 0, at a process that has come to rest."""
    while has_busy_thread(process.pid):
        pass
    rest = Rest()
    assert rest.measure(tree(process), 0, now=0.0) == 0.0
    return rest


def test_a_process_that_waits_is_at_rest(program: Program) -> None:
    process = program()
    rest = await_rest(process)

    assert [rest.measure(tree(process), 0, now) for now in (1.0, 2.5)] == [1.0, 2.5]


@pytest.mark.parametrize(
    "work",
    [
        "any(time.process_time() > 0.5 for _ in iter(int, 1))",
        f"open('/dev/null', 'wb').write(bytes({BYTES + 1}))",
        f"open('/dev/zero', 'rb').read({BYTES + 1})",
        "child = subprocess.Popen(['sleep', '1000'])",
    ],
    ids=["computes", "writes", "reads", "starts a process"],
)
def test_work_ends_the_rest(program: Program, work: str) -> None:
    process = program()
    rest = await_rest(process)
    do(process, work)

    try:
        assert rest.measure(tree(process), 0, now=2.0) == 0.0
    finally:
        do(process, "globals().get('child') and (child.kill(), child.wait())")


def test_a_line_of_the_log_ends_the_rest(program: Program) -> None:
    process = program()
    rest = await_rest(process)

    assert rest.measure(tree(process), 1, now=2.0) == 0.0


def test_a_process_that_would_run_is_not_at_rest_however_little_time_it_gets(program: Program) -> None:
    process = program("print(flush=True)\nwhile True: pass")
    pids = [process.pid]
    rest = Rest()
    rest.measure(pids, 0, now=0.0)

    assert rest.measure(pids, 0, now=1e6) == 0.0


def test_only_a_wait_for_a_lock_is_taken_for_one_in_tensorflow(program: Program) -> None:
    lock = program("import threading\nprint(flush=True)\nthreading.Semaphore(0).acquire()")
    asleep = program("import time\nprint(flush=True)\ntime.sleep(1000)")
    await_true(lambda: waits_for_lock(lock.pid), "the wait for a lock")
    await_rest(asleep)

    assert not waits_for_lock(asleep.pid)
    assert not has_tensorflow(lock.pid)


def test_a_process_that_has_ended_has_used_nothing() -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    assert (cpu_ticks(process.pid), has_busy_thread(process.pid), has_tensorflow(process.pid)) == (0, False, False)
    assert cpu_ticks(os.getpid()) > 0
