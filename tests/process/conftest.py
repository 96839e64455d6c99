"""Real launches of real programs, and the proof after each test that nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
MARK = "TF_LAUNCH_TEST_MARK"
PATIENCE = 30.0
"""Seconds after which an awaited event is declared missing."""


def await_true(condition: Callable[[], object], what: str) -> None:
    """Return once the condition holds; fail by name if it never does."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.005)


def marked_processes(mark: str) -> list[psutil.Process]:
    """Every living process that inherited a test's mark, whoever its parent is by now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@dataclass
class Launch:
    """A launcher under way."""

    process: subprocess.Popen[bytes]
    mark: str
    runs: Path
    cwd: Path
    _streams: tuple[bytes, bytes] | None = field(default=None)

    def wait(self) -> int:
        """Its exit code."""
        if self._streams is None:
            self._streams = self.process.communicate(timeout=60)
        return self.process.returncode

    @property
    def stdout(self) -> str:
        self.wait()
        assert self._streams is not None
        return self._streams[0].decode()

    @property
    def stderr(self) -> str:
        self.wait()
        assert self._streams is not None
        return self._streams[1].decode()

    @property
    def run_directory(self) -> Path:
        return (self.runs / "latest").resolve()

    def log(self, task: str, attempt: int = 0) -> bytes:
        """A worker's raw log, as far as it has come."""
        try:
            return (self.run_directory / f"attempt-{attempt}" / f"{task}.log").read_bytes()
        except FileNotFoundError:
            return b""

    def await_log(self, text: bytes, *tasks: str, attempt: int = 0) -> None:
        """Return once each task has written `text`."""
        for task in tasks:
            await_true(lambda task=task: text in self.log(task, attempt), f"{text!r} in the log of {task}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def alive(self) -> list[psutil.Process]:
        """What of it lives, the launcher included."""
        return marked_processes(self.mark)

    def named(self, name: str) -> psutil.Process:
        """Its process of that name: launch-agent or launch-guard."""
        return next(process for process in self.alive() if process.name() == name)

    def await_nothing_left(self) -> None:
        await_true(lambda: not self.alive(), f"the end of {self.alive()}")


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark in the environment of all that the test starts; whatever still bears it afterwards is an orphan."""
    mark = uuid.uuid4().hex
    yield mark
    orphans = marked_processes(mark)
    for process in orphans:
        process.send_signal(signal.SIGKILL)
    assert not orphans, f"left behind: {[(process.pid, process.cmdline()) for process in orphans if process.is_running()]}"


@pytest.fixture
def launch(tmp_path: Path, mark: str) -> Callable[..., Launch]:
    """Start `launch --run-dir <fresh> ARGUMENTS`; stdout and stderr are read by `Launch`."""

    def start(*arguments: str | Path, cwd: Path = tmp_path, env: dict[str, str] | None = None, **popen: object) -> Launch:
        runs = tmp_path / "runs"
        argv = [sys.executable, "-m", "launcher", "--run-dir", str(runs), *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), MARK: mark, **(env or {})}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **popen}
        return Launch(subprocess.Popen(argv, cwd=cwd, env=environment, **streams), mark, runs, cwd)  # type: ignore[call-overload]

    return start


@pytest.fixture
def program() -> Callable[..., Sequence[str]]:
    """The command line of one of the hostile programs beside the tests."""

    def command(name: str, *arguments: str) -> Sequence[str]:
        return ("--", sys.executable, str(PROGRAMS / f"{name}.py"), *arguments)

    return command
