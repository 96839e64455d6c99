"""A program under way, bounded in time, and nothing of it left afterwards."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MARK = "TF_LAUNCH_BENCH_MARK"
"""Stands in the environment of all that a benchmark starts, so that whatever is left can be found."""
THIS_BENCH = uuid.uuid4().hex
"""What every mark of this process begins with."""
NOT_PASSED_ON = ("TF_CONFIG", "LAUNCH_", "OMP_", "TF_NUM_", "PYTHONDONTWRITEBYTECODE")
KILL_AGAIN = 0.05
LAST_LINES = 5


class BenchError(Exception):
    """A program did not do what it was measured for; the message says which, and what it wrote last."""


def environment() -> dict[str, str]:
    """This process's environment without what would change how a launcher or a worker behaves."""
    return {key: value for key, value in os.environ.items() if not key.startswith(NOT_PASSED_ON)}


@dataclass(frozen=True, slots=True)
class Running:
    """A program under way, with all that it started."""

    process: subprocess.Popen[bytes]
    began: float
    """`time.monotonic()` right before fork and exec."""
    mark: str
    errors: Path

    def alive(self) -> list[int]:
        """The program and everything below it that lives, whoever its parent is by now."""
        return marked(self.mark)

    def pid_of(self, name: str) -> int:
        """The one process of that name.

        Raises:
            BenchError: there is none.
        """
        for pid in self.alive():
            if name_of(pid) == name:
                return pid
        raise self.failed(f"no process named {name}")

    def await_end(self, seconds: float) -> float:
        """Wait for the program itself to end; the time of it, in seconds since `began`.

        Raises:
            BenchError: it has not ended after `seconds`.
        """
        with watched([self.process.pid]) as watch:
            ended = watch.await_ends(watch.handles, seconds)
        if ended == float("inf"):
            raise self.failed(f"not done after {seconds:.0f} s")
        self.process.wait()
        return ended - self.began

    def failed(self, what: str) -> BenchError:
        """What happened, with the program's last words."""
        lines = self.errors.read_text(errors="replace").splitlines() if self.errors.exists() else []
        return BenchError("\n  ".join([f"{self.process.args!r}: {what}", *lines[-LAST_LINES:]]))

    def end(self) -> None:
        """Kill whatever is left of it."""
        kill_marked(self.mark)
        self.process.wait()


def marked(mark: str) -> list[int]:
    """Every living process whose mark begins so. A zombie has no environment."""
    wanted = f"{MARK}={mark}".encode()
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if wanted in environ_of(pid)]


def kill_marked(mark: str) -> None:
    """Kill until nothing is left."""
    while left := marked(mark):
        for pid in left:
            kill(pid)
        time.sleep(KILL_AGAIN)


@contextmanager
def started(
    argv: Sequence[str],
    directory: Path,
    *,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[Running]:
    """Start a program; its stderr goes to a file in `directory`. At the end of the block nothing of it lives."""
    mark = f"{THIS_BENCH}-{uuid.uuid4().hex}"
    errors = directory / f"stderr-{mark}"
    everything = {**environment(), "TMPDIR": str(directory), **(env or {}), MARK: mark}
    with errors.open("wb") as stderr:
        began = time.monotonic()
        process = subprocess.Popen(
            argv,
            env=everything,
            cwd=cwd or directory,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    running = Running(process, began, mark, errors)
    try:
        yield running
    finally:
        running.end()


@contextmanager
def watched(pids: Iterable[int]) -> Iterator[Watch]:
    """Open a handle on each process, so that its end is seen at once and its pid cannot be mistaken."""
    handles = {}
    try:
        for pid in pids:
            try:
                handles[pid] = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
        yield Watch(handles)
    finally:
        for handle in handles.values():
            os.close(handle)


@dataclass(frozen=True, slots=True)
class Watch:
    """Handles on processes, by pid."""

    handles: Mapping[int, int]

    def await_ends(self, pids: Iterable[int], patience: float) -> float:
        """The moment (`time.monotonic()`) at which the last of `pids` ended; infinity after `patience` seconds."""
        return max(self.ends(pids, patience).values(), default=time.monotonic())

    def ends(self, pids: Iterable[int], patience: float) -> dict[int, float]:
        """The moment at which each of `pids` ended; infinity for those that live after `patience` seconds."""
        poller = select.poll()
        left = {self.handles[pid]: pid for pid in pids if pid in self.handles}
        for handle in left:
            poller.register(handle, select.POLLIN)
        deadline = time.monotonic() + patience
        found = dict.fromkeys(left.values(), float("inf"))
        while left and (ended := poller.poll(max(0.0, deadline - time.monotonic()) * 1000)):
            now = time.monotonic()
            for handle, _ in ended:
                poller.unregister(handle)
                found[left.pop(handle)] = now
        return found


def environ_of(pid: int) -> bytes:
    """The environment of a process; empty for one that has ended or is not ours."""
    return read_proc(pid, "environ")


def name_of(pid: int) -> str:
    """The name of a process, as `ps` shows it."""
    return read_proc(pid, "comm").decode(errors="replace").strip()


def peak_memory(pid: int) -> float:
    """The most memory (MB) that a process has held so far; 0 for one that has ended."""
    for line in read_proc(pid, "status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def read_proc(pid: int, entry: str) -> bytes:
    """A file of /proc/PID, or nothing."""
    try:
        return Path(f"/proc/{pid}/{entry}").read_bytes()
    except OSError:
        return b""


def kill(pid: int) -> None:
    """SIGKILL a process that may have ended meanwhile."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
