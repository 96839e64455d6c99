"""Real launches of real programs, and the proof after each test that nothing of them is left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.launching import MARK, NOT_INHERITED, ROOT, Launch, cluster_file, launches, nothing_left


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark in the environment of all that the test starts; whatever still bears it afterwards is an orphan."""
    with nothing_left() as mark:
        yield mark


@pytest.fixture
def environment(tmp_path: Path, mark: str) -> Iterator[dict[str, str]]:
    """The environment of the launchers of a test, with a TMPDIR that must be empty again afterwards."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    own = {key: value for key, value in os.environ.items() if not key.startswith(NOT_INHERITED)}
    yield {**own, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), MARK: mark}
    assert not list(temporary.iterdir())


@pytest.fixture
def launch(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Launch]]:
    """Start `launch --run-dir <fresh> ARGUMENTS`; stdout and stderr are read by `Launch`."""
    with launches(tmp_path, environment) as start:
        yield start


@pytest.fixture
def cluster(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Write a cluster file of one local host; return the options that name it."""

    def write(workers: int = 2, timeouts: Mapping[str, str] | None = None, **keys: Any) -> tuple[str, str]:
        top = {key: keys.pop(key) for key in ("name", "command", "per_task", "restart", "collect") if key in keys}
        work = {} if "tasks" in keys else {"workers": workers}
        return cluster_file(tmp_path, [{"host": "localhost", **work, **keys}], timeouts, top)

    return write
