"""`launch collect` beside `launch`: what each takes a command line for. Real hosts are in tests/ssh."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.launching import PATIENCE, Launch

Start = Callable[..., Launch]
Collect = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def collect(environment: dict[str, str], tmp_path: Path) -> Collect:
    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "launcher", "collect", *map(str, arguments)]
        return subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)

    return run


def test_a_run_without_other_hosts_is_here_already(launch: Start, collect: Collect) -> None:
    started = launch(
        "--workers", "1", "--", "sh", "-c", 'mkdir "$LAUNCH_OUTPUT_DIR/export"; >"$LAUNCH_OUTPUT_DIR/export/x"'
    )
    assert started.succeeded()

    for arguments in ((started.run_directory,), ("--run-dir", started.runs), ("--run-dir", started.runs, "latest")):
        collected = collect(*arguments)
        assert collected.returncode == 0
        assert "[launch] all of this run is here: it had no other hosts" in collected.stderr
        assert "export (1 file, 0 B)" in collected.stderr


@pytest.mark.parametrize("arguments", [(), ("20261120-142233-run",), ("/nowhere",), ("--wrong",), ("a", "b")])
def test_a_run_that_is_not_there_is_told(collect: Collect, arguments: tuple[str, ...], tmp_path: Path) -> None:
    collected = collect(*arguments)

    assert collected.returncode == 2
    assert "Traceback" not in collected.stderr
    assert not (tmp_path / "runs").exists()


def test_a_run_whose_state_cannot_be_read_is_told(collect: Collect, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "run.json").chmod(0o600)
    collected = collect(tmp_path)

    assert collected.returncode == 1
    assert f"{tmp_path}/run.json: no readable state of a run" in collected.stderr


def test_collect_has_a_help_of_its_own(launch: Start, collect: Collect) -> None:
    assert collect("--help").stdout.startswith("Usage: ")
    assert "-m launcher collect [RUN]" in launch("--help").stdout


@pytest.mark.parametrize("words", [("--", "collect", "--help"), ("collect", "--help")])
def test_a_program_of_that_name_can_be_run(launch: Start, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "collect").write_text("#!/bin/sh\necho collecting $1\n")
    (tmp_path / "bin" / "collect").chmod(0o755)
    started = launch("--workers", "1", "--env", f"PATH={tmp_path / 'bin'}:/usr/bin:/bin", *words)

    assert started.succeeded()
    assert started.log("worker-0") == b"collecting --help\n"
