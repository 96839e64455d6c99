"""`scripts/background`: a run goes on without anybody, can be looked at, and is stopped as by Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.launching import MARK, ROOT, await_true, marked_processes

Background = Callable[..., subprocess.CompletedProcess[str]]
STAY = "trap 'echo interrupted; exit 3' INT; echo began; while :; do sleep 0.01; done"


@pytest.fixture(params=["detached", "tmux"])
def kind(request: pytest.FixtureRequest, need: Callable[..., None]) -> str:
    """Whether the run has a terminal."""
    if request.param == "tmux":
        need("tmux")
    return str(request.param)


@pytest.fixture
def background(tmp_path: Path, environment: dict[str, str], kind: str) -> Iterator[Background]:
    """Run `scripts/background ARGUMENTS` to its end, with a home and a tmux of its own."""
    sockets = tempfile.mkdtemp(prefix="tmux-")  # a socket's path may have 107 characters
    own = {**environment, "HOME": str(tmp_path), "TMUX_TMPDIR": sockets}

    def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        words = [str(ROOT / "scripts/background"), *arguments]
        if arguments[0] == "start" and kind == "detached":
            words.insert(2, "--no-tmux")
        return subprocess.run(words, env={**own, **env}, cwd=tmp_path, capture_output=True, text=True)

    yield run
    for each in json_files(tmp_path):
        run("stop", each.stem)
    await_true(lambda: not marked_processes(environment_mark(environment)), "the end of everything")
    shutil.rmtree(sockets)


def environment_mark(environment: dict[str, str]) -> str:
    return environment[MARK]


def json_files(home: Path) -> list[Path]:
    return list((home / ".tf-launch/background").glob("*.json"))


def log(home: Path, name: str = "run") -> str:
    return (home / f".tf-launch/background/{name}.log").read_text().replace("\r", "")


def test_a_run_goes_on_and_is_stopped_as_by_ctrl_c(background: Background, tmp_path: Path, kind: str) -> None:
    started = background("start", "--", "sh", "-c", STAY)
    assert started.returncode == 0, started.stderr
    assert f"in {kind}" in started.stdout or kind in started.stdout
    await_true(lambda: "began\n" in log(tmp_path), "its first line in the log")
    assert "run: running for" in background("status").stdout

    stopped = background("stop")

    assert stopped.stdout.splitlines()[-1] == "run: ended with exit code 3"
    assert log(tmp_path).splitlines()[-1] == "interrupted"
    assert background("status", "run").stdout.startswith("run: ended with exit code 3  sh -c ")


def test_a_run_keeps_directory_environment_and_words(background: Background, tmp_path: Path) -> None:
    words = "two words", "it's", "$HOME", ""
    background("start", "--", "sh", "-c", 'printf "%s|" "$PWD" "$VALUE" "$@"; echo', "sh", *words, VALUE="a 'value'")
    await_true(lambda: log(tmp_path).endswith("|\n"), "its line", lambda: log(tmp_path))

    assert log(tmp_path) == "|".join([str(tmp_path), "a 'value'", *words]) + "|\n"


def test_attach_shows_the_log_until_the_end(background: Background, tmp_path: Path) -> None:
    background("start", "--name", "short", "--", "sh", "-c", "echo one; exit 7")
    await_true(lambda: "exit code" in background("status", "short").stdout, "its end")

    attached = background("attach", "short")

    assert attached.stdout.replace("\r", "") == "one\n"
    assert attached.stderr == "short: ended with exit code 7\n"


def test_a_launch_in_the_background_ends_well_when_stopped(background: Background, tmp_path: Path) -> None:
    background("start", "--", sys.executable, "-m", "launcher", "--workers", "1", "--", "sh", "-c", STAY, NO_COLOR="1")
    await_true(lambda: "[worker 0] began" in log(tmp_path), "the worker's line", lambda: log(tmp_path))

    assert background("stop").stdout.splitlines()[-1] == "run: ended with exit code 130"
    assert "[worker 0] interrupted" in log(tmp_path)


def test_names_are_unique_among_the_living(background: Background) -> None:
    for _ in range(2):
        background("start", "--", "sh", "-c", STAY)

    refused = background("start", "--name", "run-2", "--", "true")
    asked = background("stop")

    assert (refused.returncode, asked.returncode) == (2, 2)
    assert "run-2 is running already: stop it first" in refused.stderr
    assert asked.stderr == "background: say which run: run, run-2\n"


def test_a_program_that_is_not_there_is_told(background: Background, tmp_path: Path) -> None:
    refused = background("start", "--", "no-such-program")

    assert (refused.returncode, refused.stderr) == (2, "background: no-such-program: there is no such program\n")
    assert not json_files(tmp_path)


def test_a_run_whose_end_nobody_saw_is_told(background: Background, tmp_path: Path) -> None:
    background("start", "--", "sh", "-c", STAY)
    about = json.loads(json_files(tmp_path)[0].read_text())
    for pid, _ in (about["keeper"], about["program"]):
        os.kill(pid, 9)
    await_true(lambda: "its end was not seen" in background("status").stdout, "its end")

    assert background("stop", "run").stdout.startswith("run: gone")


def test_what_is_written_down_is_the_users_alone(background: Background, tmp_path: Path) -> None:
    background("start", "--", "true")

    assert (tmp_path / ".tf-launch/background").stat().st_mode & 0o777 == 0o700
