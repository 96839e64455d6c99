"""A launcher under way, and what a test asks of it and of the machine."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from rig.processes import name_of
from rig.requirements import missing_program

ROOT = Path(__file__).resolve().parents[2]
MODULE = ("-m", "launcher")
SCRIPT = ("-I", "-S", str(ROOT / "launcher/__main__.py"))
"""Python's words for a launcher, as a person types them, and as scripts/launch does."""
PROGRAMS = ROOT / "tests" / "process" / "programs"
MARK = "TF_LAUNCH_TEST_MARK"
NOT_INHERITED = ("LAUNCH_", "TF_", "COVERAGE_", "VIRTUAL_ENV", "CONDA_")
"""How the names of variables begin that would change what a launcher does."""
SHORT = {"grace": "10s", "failure_grace": "200ms", "start": "20s"}
"""A test that needs another grace says so; none waits for one to pass unless the passing is its subject."""
PATIENCE = 120.0
"""Seconds after which an awaited event is declared missing."""


def await_true(condition: Callable[[], object], what: str, found: Callable[[], object] = str) -> None:
    """Return once the condition holds; fail by name, with what was found instead, if it never does."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what} {found()}"
        time.sleep(0.01)


def marked_processes(mark: str) -> list[psutil.Process]:
    """Every living process that inherited a test's mark, whoever its parent is by now. A zombie has no environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in psutil.pids():
        try:
            if wanted in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(psutil.Process(pid))
        except (OSError, psutil.NoSuchProcess):
            continue
    return found


@contextlib.contextmanager
def nothing_left() -> Iterator[str]:
    """A mark for the environment of all that a test starts; whatever still bears it at the end is an orphan."""
    mark = uuid.uuid4().hex
    yield mark
    orphans = marked_processes(mark)
    for process in orphans:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    assert not orphans


@contextlib.contextmanager
def launches(place: Path, environment: Mapping[str, str], login: Sequence[str] = ()) -> Iterator[Callable[..., Launch]]:
    """What starts `launch --run-dir <fresh> ARGUMENTS` behind the words `login`; `Launch` reads stdout and stderr."""
    started: list[Launch] = []

    def start(
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        runs: Path | None = None,
        under: Sequence[str] = (),
        called: Sequence[str] = MODULE,
        **popen: Any,
    ) -> Launch:
        runs = runs or place / ("runs" if not started else f"runs-{len(started)}")
        argv = [*login, *under, sys.executable, *called, "--run-dir", str(runs), *map(str, arguments)]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(argv, env={**environment, **(env or {})}, **{"cwd": place, **pipes, **popen})
        started.append(Launch(process, environment[MARK], runs))
        return started[-1]

    yield start
    for each in started:
        each.shut()


def cluster_file(
    place: Path, hosts: Sequence[Mapping[str, Any]], timeouts: Mapping[str, str] | None, top: Mapping[str, Any]
) -> tuple[str, str]:
    """Write a cluster file of these hosts; return the options that name it."""
    path = place / "cluster.yaml"
    file = {"hosts": hosts, "timeouts": {**SHORT, **(timeouts or {})}, **top}
    path.write_text(json.dumps(file, ensure_ascii=False))  # which is YAML, too
    return "--cluster", str(path)


def program(name: str, *arguments: str) -> tuple[str, ...]:
    """The command line of one of the hostile programs."""
    return ("--", sys.executable, str(PROGRAMS / f"{name}.py"), *arguments)


@contextlib.contextmanager
def disk(place: Path, megabytes: int) -> Iterator[None]:
    """A file system of that size at a directory; the test is skipped where none may be mounted."""
    if reason := missing_program("mount"):
        pytest.skip(reason)
    what = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"]
    mounted = subprocess.run(["mount", *what, place], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a tmpfs, as root has it: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


@dataclass
class Launch:
    """A launcher under way."""

    process: subprocess.Popen[bytes]
    mark: str
    runs: Path
    _streams: tuple[bytes, bytes] | None = field(default=None)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Its exit code, once it has ended and both its streams have been read to their end."""
        if self._streams is None:
            self._streams = self.process.communicate(timeout=seconds)
        return self.process.returncode

    @property
    def raw_stdout(self) -> bytes:
        """All that it wrote to stdout."""
        self.wait()
        assert self._streams is not None
        return self._streams[0] or b""

    @property
    def stdout(self) -> str:
        """The same as text."""
        return self.raw_stdout.decode()

    @property
    def stderr(self) -> str:
        """All that it wrote to stderr."""
        self.wait()
        assert self._streams is not None
        return (self._streams[1] or b"").decode()

    @property
    def last_words(self) -> str:
        """What the launcher said of its own, after the line about the run directory."""
        return self.stderr.partition("run directory")[2].partition("\n")[2]

    def succeeded(self) -> bool:
        """Whether it exits 0; its own words are the message of the assertion."""
        assert self.wait() == 0, self.stderr
        return True

    def shut(self) -> None:
        """End the launcher, and what ends with it, if it still runs; close this end of its pipes."""
        started: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            started = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        psutil.wait_procs(started, timeout=PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    # ---- the run directory
    @property
    def run_directory(self) -> Path:
        return (self.runs / "latest").resolve()

    @property
    def run_state(self) -> dict[str, Any]:
        """What `run.json` holds."""
        state: dict[str, Any] = json.loads((self.run_directory / "run.json").read_bytes())
        return state

    @property
    def events(self) -> list[dict[str, Any]]:
        """The whole lines of `events.jsonl` so far."""
        try:
            text = (self.run_directory / "events.jsonl").read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def await_event(self, kind: str, count: int = 1) -> None:
        """Return once so many events of this kind are written down."""
        await_true(lambda: sum(event["type"] == kind for event in self.events) >= count, f"{count} x {kind}")

    def log(self, task: str, attempt: int = 0) -> bytes:
        """A worker's raw log, as far as it has come."""
        try:
            return (self.run_directory / f"attempt-{attempt}" / f"{task}.log").read_bytes()
        except FileNotFoundError:
            return b""

    def log_size(self, task: str) -> int:
        """How many bytes a worker has written in the first attempt."""
        try:
            return (self.run_directory / "attempt-0" / f"{task}.log").stat().st_size
        except FileNotFoundError:
            return 0

    def report(self, task: str = "worker-0", attempt: int = 0) -> dict[str, Any]:
        """What the program `report` found out about itself."""
        self.succeeded()
        found: dict[str, Any] = json.loads(self.log(task, attempt))
        return found

    def await_log(self, text: bytes, *tasks: str, attempt: int = 0) -> None:
        """Return once each task has written `text`."""
        for task in tasks:
            read = partial(self.log, task, attempt)
            await_true(lambda read=read: text in read(), f"{text!r} in the log of {task}", self._seen)  # type: ignore[misc]

    def _seen(self) -> object:
        """For the message of a test that waited in vain."""
        logs = {path.name: path.read_bytes()[-1000:] for path in self.runs.rglob("*.log")}
        return self.process.poll(), self.alive(), logs, self.events

    # ---- the processes
    def signal(self, number: int) -> None:
        """Send the launcher a signal."""
        self.process.send_signal(number)

    def alive(self) -> list[psutil.Process]:
        """What of it lives, the launcher included."""
        return marked_processes(self.mark)

    def named(self, name: str) -> psutil.Process:
        """Its process of that name: launch-agent or launch-guard."""
        return next(process for process in self.alive() if name_of(process) == name)

    def worker(self, task: str) -> psutil.Process:
        """The process of a task, once it has started."""
        pids: list[int] = []
        started = {"type": "task_started", "task": task}
        await_true(
            lambda: pids.extend(each["pid"] for each in self.events if started.items() <= each.items()) or pids,
            f"the start of {task}",
        )
        return psutil.Process(pids[-1])

    def await_only_the_launcher(self) -> None:
        """Return once all but the launcher itself has ended."""
        await_true(
            lambda: [each.pid for each in self.alive()] == [self.process.pid],
            "the end of all but the launcher",
            self.alive,
        )

    def await_nothing_left(self) -> None:
        """Return once no process of the run lives."""
        await_true(lambda: not self.alive(), "the end of all processes, not of", self.alive)


def signals_of(mask: str) -> set[signal.Signals]:
    """The signals in a mask of /proc/PID/status, without glibc's own and the real-time ones."""
    bits = int(mask, 16)
    return {signal.Signals(number) for number in range(1, 32) if bits >> (number - 1) & 1}
