"""Real launches of real programs, and the proof after each test that nothing of them is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from launching import MARK, ROOT, Launch, marked_processes

SHORT = {"grace": "10s", "failure_grace": "200ms", "start": "20s"}
"""A test that needs another grace says so; none waits for one to pass unless the passing is its subject."""


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark in the environment of all that the test starts; whatever still bears it afterwards is an orphan."""
    mark = uuid.uuid4().hex
    yield mark
    orphans = marked_processes(mark)
    for process in orphans:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    assert not orphans


@pytest.fixture
def environment(tmp_path: Path, mark: str) -> Iterator[dict[str, str]]:
    """The environment of the launchers of a test, with a TMPDIR that must be empty again afterwards."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    own = {key: value for key, value in os.environ.items() if not key.startswith(("LAUNCH_", "TF_", "COVERAGE_"))}
    yield {**own, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), MARK: mark}
    assert not list(temporary.iterdir())


@pytest.fixture
def launch(tmp_path: Path, mark: str, environment: dict[str, str]) -> Iterator[Callable[..., Launch]]:
    """Start `launch --run-dir <fresh> ARGUMENTS`; stdout and stderr are read by `Launch`."""
    started: list[Launch] = []

    def start(
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        runs: Path | None = None,
        under: tuple[str, ...] = (),
        **popen: Any,
    ) -> Launch:
        runs = runs or tmp_path / ("runs" if not started else f"runs-{len(started)}")
        argv = [*under, sys.executable, "-m", "launcher", "--run-dir", str(runs), *map(str, arguments)]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        options = {"cwd": tmp_path, **pipes, **popen}
        process = subprocess.Popen(argv, env={**environment, **(env or {})}, **options)
        started.append(Launch(process, mark, runs))
        return started[-1]

    yield start
    for each in started:
        each.shut()


@pytest.fixture
def cluster(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Write a cluster file of one local host; return the options that name it."""

    def write(workers: int = 2, timeouts: Mapping[str, str] | None = None, **keys: Any) -> tuple[str, str]:
        top = {key: keys.pop(key) for key in ("name", "command", "restart", "collect") if key in keys}
        work = {} if "tasks" in keys else {"workers": workers}
        file = {"hosts": [{"host": "localhost", **work, **keys}], "timeouts": {**SHORT, **(timeouts or {})}, **top}
        path = tmp_path / "cluster.yaml"
        path.write_text(json.dumps(file, ensure_ascii=False))  # which is YAML, too
        return "--cluster", str(path)

    return write
