"""A run says which programs are started: what others have made, or could change, starts none.

Each run here has an option for ssh that would make a file, and is no server that ssh would talk to.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from support.launching import PATIENCE, Launch

from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.launcher_process import Launcher
from launcher.run_directory.state import RunHost, RunState

Start = Callable[..., Launch]
Collect = Callable[..., subprocess.CompletedProcess[str]]
NOBODY = 65534
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who can give files away")


@pytest.fixture(autouse=True)
def ssh(need: Callable[..., None]) -> None:
    """The system's."""
    need("ssh", "openssh-client")


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """What appears when the run's option for ssh is used."""
    return tmp_path / "ran"


@pytest.fixture
def run(tmp_path: Path, ran: Path) -> RunDirectory:
    """A run of one's own."""
    return made(tmp_path / "runs", "mine", 2026, ran)


def made(root: Path, name: str, year: int, ran: Path) -> RunDirectory:
    run = RunDirectory.create(root, name, datetime(year, 11, 20))
    hosts = (RunHost("gpu-a", ("worker-0",), "/r", "/r/output", (option(ran),), 1.0),)
    here = Launcher.this_process()
    run.write_state(RunState(run.name, ("true",), "done", "", here, {}, hosts=hosts, inode=run.inode))
    return run


def option(ran: Path) -> str:
    makes = f"touch {shlex.quote(str(ran))}; read theirs; echo SSH-1.0-old"
    return f"-oProxyCommand=sh -c {shlex.quote(makes)}"


@pytest.fixture
def collect(environment: dict[str, str], tmp_path: Path) -> Collect:
    def start(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "launcher", "collect", *map(str, arguments)]
        return subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)

    return start


def test_the_options_of_a_run_of_ones_own_are_used(collect: Collect, run: RunDirectory, ran: Path) -> None:
    assert collect(run.path).returncode == 3
    assert ran.exists()


def writable_directory(run: RunDirectory) -> None:
    run.path.chmod(0o770)


def writable_file(run: RunDirectory) -> None:
    run.path.chmod(0o755)
    run.run_file.chmod(0o606)


def linked_file(run: RunDirectory) -> None:
    run.run_file.rename(run.path / "elsewhere")
    run.run_file.symlink_to("elsewhere")


def directory_of_another(run: RunDirectory) -> None:
    os.chown(run.path, NOBODY, NOBODY)


def file_of_another(run: RunDirectory) -> None:
    os.chown(run.run_file, NOBODY, NOBODY)


OTHERS = [
    *(writable_directory, writable_file, linked_file),
    *(pytest.param(each, marks=ROOT_ONLY) for each in (directory_of_another, file_of_another)),
]


@pytest.mark.parametrize("spoil", OTHERS)
def test_a_run_that_others_may_have_written_starts_nothing(
    collect: Collect, run: RunDirectory, ran: Path, spoil: Callable[[RunDirectory], None]
) -> None:
    spoil(run)

    for which in ((run.path,), (run.name,), ("runs/latest",)):
        collected = collect(*which, "--trust-ssh-options")
        assert collected.returncode in {1, 2}
        assert f"/{run.name}" in collected.stderr or "runs/latest" in collected.stderr
        assert "Traceback" not in collected.stderr
    assert not ran.exists()


@pytest.mark.parametrize("spoil", OTHERS)
def test_such_a_run_does_not_go_on(
    launch: Start, run: RunDirectory, ran: Path, spoil: Callable[[RunDirectory], None]
) -> None:
    spoil(run)

    refused = launch("--workers", "1", "--resume", run.path, "--", "touch", ran)

    assert refused.wait() in {1, 2}
    assert run.name in refused.stderr
    assert not ran.exists()


@pytest.mark.parametrize("spoil", OTHERS)
def test_what_is_latest_is_ones_own_whatever_others_have_put_there(
    collect: Collect, run: RunDirectory, ran: Path, tmp_path: Path, spoil: Callable[[RunDirectory], None]
) -> None:
    evil = made(tmp_path / "runs", "evil", 2027, tmp_path / "evil-ran")
    spoil(evil)
    link = tmp_path / "runs" / "latest"
    assert link.resolve() == evil.path

    assert collect("latest").returncode == 3

    assert ran.exists()
    assert not (tmp_path / "evil-ran").exists()


@ROOT_ONLY
def test_a_planted_link_to_a_run_of_ones_own_is_not_the_latest(
    collect: Collect, run: RunDirectory, ran: Path, tmp_path: Path
) -> None:
    planted = made(tmp_path, "planted", 2025, tmp_path / "planted-ran")
    link = tmp_path / "runs" / "latest"
    link.unlink()
    link.symlink_to(planted.path)
    os.lchown(link, NOBODY, NOBODY)

    assert collect("latest").returncode == 3
    assert ran.exists()


# ---- made elsewhere
@pytest.fixture(params=["copy", "another machine", "an earlier version"])
def foreign(request: pytest.FixtureRequest, run: RunDirectory, tmp_path: Path) -> RunDirectory:
    """A run of one's own that was not made here."""
    if request.param == "copy":
        shutil.copytree(run.path, tmp_path / "copy")
        return RunDirectory(tmp_path / "copy")
    state = run.read_state()
    launcher = replace(state.launcher, host="gpu-login9" if request.param == "another machine" else "")
    run.write_state(replace(state, launcher=launcher))
    return run


def test_options_that_were_made_elsewhere_are_not_used_unasked(
    collect: Collect, foreign: RunDirectory, ran: Path
) -> None:
    refused = collect(foreign.path)

    assert refused.returncode == 2
    assert "its options for ssh may start programs here:\n" in refused.stderr
    assert "gpu-a: '-oProxyCommand=sh " in refused.stderr
    assert "add --trust-ssh-options" in refused.stderr
    assert not ran.exists()


def test_who_says_so_gets_them(collect: Collect, foreign: RunDirectory, ran: Path) -> None:
    assert collect(foreign.path, "--trust-ssh-options").returncode == 3
    assert ran.exists()


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 3), (b"\n", 2), (b"n\n", 2), (b"\x04", 130)])
def test_at_a_terminal_a_person_is_asked(
    environment: dict[str, str], foreign: RunDirectory, ran: Path, answer: bytes, code: int
) -> None:
    ours, its = pty.openpty()
    words = [sys.executable, "-m", "launcher", "collect", str(foreign.path)]
    with subprocess.Popen(words, env=environment, stdin=its, stdout=its, stderr=its, start_new_session=True) as process:
        os.close(its)
        said = b""
        while b"[y/N]" not in said:
            said += os.read(ours, 4096)
        assert b"-oProxyCommand=sh " in said
        assert not ran.exists()
        os.write(ours, answer)
        with contextlib.suppress(OSError):  # EIO: the end
            while os.read(ours, 4096):
                pass
    os.close(ours)
    assert process.returncode == code
    assert ran.exists() == (answer == b"y\n")


def test_a_run_that_goes_on_with_a_cluster_file_of_its_own_is_asked_about(
    launch: Start, foreign: RunDirectory, ran: Path, tmp_path: Path
) -> None:
    hosts = [{"host": "gpu-a", "workers": 1, "ssh": {"options": [option(ran)], "connect_timeout": "1s"}}]
    foreign.write_cluster_file(json.dumps({"hosts": hosts, "command": ["true"]}))
    asked = {"cluster": str(tmp_path / "gone.yaml"), "env": {}, "directory": str(tmp_path), "command": []}
    foreign.write_state(replace(foreign.read_state(), request=asked))

    refused = launch("--resume", foreign.path)
    assert refused.wait() == 2
    assert "add --trust-ssh-options" in refused.stderr
    assert not ran.exists()

    assert launch("--resume", foreign.path, "--trust-ssh-options").wait() == 3
    assert ran.exists()


def test_a_run_without_options_for_ssh_is_not_asked_about(launch: Start, collect: Collect, tmp_path: Path) -> None:
    started = launch("--workers", "1", "--", "true")
    assert started.succeeded()
    shutil.copytree(started.run_directory, tmp_path / "copy")

    assert collect(tmp_path / "copy").returncode == 0
    assert launch("--resume", tmp_path / "copy").succeeded()


# ---- a directory of runs that users share
@pytest.fixture
def shared(tmp_path: Path, launch: Start) -> Path:
    """One where another user has a newer run, `latest` points to it, and other things lie about."""
    runs = tmp_path / "runs"
    runs.mkdir()
    runs.chmod(0o1777)
    assert launch("--workers", "1", "--", "true", runs=runs).succeeded()
    theirs = RunDirectory.create(runs, "theirs", datetime(2099, 1, 1))
    theirs.run_file.write_text("{}")
    theirs.path.chmod(0)
    if os.geteuid() == 0:
        os.chown(theirs.path, NOBODY, NOBODY)
        os.lchown(runs / "latest", NOBODY, NOBODY)
    for n, kind in enumerate((Path.mkdir, os.mkfifo)):
        odd = runs / f"20990102-00000{n}-odd"
        odd.mkdir()
        kind(odd / "run.json")
    (runs / "20990103-000000-file").write_text("")
    (runs / "20990103-000001-link").symlink_to("/nowhere")
    return runs


@pytest.mark.parametrize("which", [(), ("latest",)])
def test_the_newest_run_of_ones_own_is_meant_among_those_of_others(
    collect: Collect, shared: Path, which: tuple[str, ...]
) -> None:
    collected = collect("--run-dir", shared, *which)

    assert collected.returncode == 0, collected.stderr
    assert "all of this run is here" in collected.stderr


def test_it_goes_on_among_those_of_others(launch: Start, shared: Path) -> None:
    assert launch("--resume", "latest", runs=shared).succeeded()

    (mine,) = shared.glob("*-local")
    assert (mine / "attempt-1").exists()


def test_the_run_of_another_is_refused_by_name(collect: Collect, shared: Path) -> None:
    refused = collect("--run-dir", shared, "20990101-000000-theirs")

    assert refused.returncode in {1, 2}
    assert "20990101-000000-theirs" in refused.stderr
    assert "Traceback" not in refused.stderr
