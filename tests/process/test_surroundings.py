"""Directories that cannot be read, or that go, while a run goes on: its end is told and written down all the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.launching import Launch, await_true, cluster_file
from support.modes import obey_modes

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]

CLOSE = 'cd "$LAUNCH_OUTPUT_DIR" && mkdir -p closed && touch open closed/file && chmod 0 closed'
"""What a container that ran as root leaves behind, here for its own user."""
ONCE = '[ "$LAUNCH_ATTEMPT" != 0 ] || exit 3'


SSH = """\
#!/bin/bash
while [ "$1" != -- ]; do [ "$1" = -G ] && exit 1; words="$words $1"; shift; done
echo "$words" >> "$HOSTS/asked"
mkdir -p "$HOSTS/$2" && cd "$HOSTS/$2" && echo $$ > pid && HOME=$PWD exec sh -c "$3"
"""
"""Stands in for ssh: a host is a home directory of this machine."""


@pytest.fixture
def behind_ssh(tmp_path: Path, launch: Start) -> Iterator[Start]:
    """Start a shell's script on another host."""
    for directory in ("bin", "hosts"):
        (tmp_path / directory).mkdir()
    (tmp_path / "bin" / "ssh").write_text(SSH)
    (tmp_path / "bin" / "ssh").chmod(0o700)
    env = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOSTS": str(tmp_path / "hosts")}

    def start(script: str, host: Mapping[str, object] | None = None, **given: Any) -> Launch:
        top = {"restart": given.pop("restart", {"max_restarts": 2, "backoff": "10ms"})}
        options = cluster_file(tmp_path, [{"host": "gpu", "workers": 1, **(host or {})}], {}, top)
        started.append(launch(*options, "--", "sh", "-c", script, env=env, **given))
        return started[-1]

    started: list[Launch] = []
    yield start
    for each in started:
        await_true(lambda one=each: not one.alive(), "the end of all agents")  # type: ignore[misc]


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[None]:
    """What a test has closed is opened again, to be removed."""
    yield
    for path in tmp_path.rglob("closed"):
        path.chmod(0o700)


@pytest.mark.usefixtures("closed")
def test_an_unreadable_directory_takes_nothing_from_a_success(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(1), "--", "sh", "-c", CLOSE, preexec_fn=obey_modes)

    assert started.succeeded()
    assert "chief: open (1 file, 0 B); cannot be read: closed (Permission denied)\n" in started.stderr
    assert "Traceback" not in started.stderr
    assert started.run_state["state"] == "done"


@pytest.mark.usefixtures("closed")
def test_a_failure_is_restarted_beside_an_unreadable_directory(launch: Start, cluster: Cluster) -> None:
    restart = {"max_restarts": 2, "backoff": "10ms"}
    started = launch(*cluster(1, restart=restart), "--", "sh", "-c", f"{CLOSE}; {ONCE}", preexec_fn=obey_modes)

    assert started.succeeded()
    assert started.run_state["result"]["attempts"] == 2


@pytest.mark.usefixtures("closed")
def test_a_run_is_gone_on_with_beside_an_unreadable_directory(launch: Start, cluster: Cluster) -> None:
    first = launch(*cluster(1), "--", "sh", "-c", f"{CLOSE}; exit 3", preexec_fn=obey_modes)
    assert first.wait() == 1
    again = launch("--resume", "latest", "--", "true", runs=first.runs, preexec_fn=obey_modes)

    assert again.succeeded()
    assert "cannot be read: closed (Permission denied)" in again.stderr


def test_how_a_run_ended_is_written_down_though_nobody_can_be_told(launch: Start, cluster: Cluster) -> None:
    out, err = os.pipe()
    started = launch(
        *cluster(1), "--json", "--", "sh", "-c", "until [ -e go ]; do sleep .1; done", stdout=err, stderr=err
    )
    os.close(err)
    started.await_event("task_started")
    os.close(out)
    (started.runs.parent / "go").touch()

    assert started.wait() == 0
    assert started.run_state["state"] == "done"


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("then", ["exit 0", ONCE], ids=["success", "restart"])
def test_an_unreadable_directory_of_another_host_is_told(behind_ssh: Start, then: str) -> None:
    started = behind_ssh(f"mkdir -p $LAUNCH_OUTPUT_DIR; {CLOSE}; {then}", preexec_fn=obey_modes)

    assert started.succeeded()
    assert "not brought from gpu, where it stays in " in started.stderr
    assert "closed (Permission denied)" in started.stderr
    assert (started.run_directory / "chief" / "open").exists()
    assert started.run_state["state"] == "done"


@pytest.mark.usefixtures("closed")
def test_an_unreadable_directory_here_keeps_only_its_own_files_from_coming(behind_ssh: Start) -> None:
    make = "mkdir -p $LAUNCH_OUTPUT_DIR/closed; cd $LAUNCH_OUTPUT_DIR; touch closed/file open"
    started = behind_ssh(f"{make}; until [ -e ~/go ]; do sleep .05; done", preexec_fn=obey_modes)
    started.await_event("task_started")
    closed = started.run_directory / "chief" / "closed"
    closed.mkdir()
    closed.chmod(0)
    (started.runs.parent / "hosts" / "gpu" / "go").touch()

    assert started.wait() == 3
    assert "chief/closed: Permission denied. What is missing stays there" in started.stderr
    assert "cannot be read: closed (Permission denied)" in started.stderr
    assert "Traceback" not in started.stderr
    assert (started.run_directory / "chief" / "open").exists()
    assert started.run_state["result"]["exit_code"] == 3


# ---- the directory in which `launch` was called goes
@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A directory to call `launch` in, and to remove."""
    place = tmp_path / "workplace"
    place.mkdir()
    return place


def removing(workplace: Path, then: str) -> tuple[str, ...]:
    """A worker that removes it once nothing more is made in it: what came meanwhile would stay."""
    written = 'until [ -e "${LAUNCH_OUTPUT_DIR%/chief}/run.json" ]; do sleep .02; done'
    return ("--", "sh", "-c", f"cd /; {written}; rm -r '{workplace}'; {then}")


def test_without_its_working_directory_a_run_ends_as_ever(launch: Start, cluster: Cluster, workplace: Path) -> None:
    started = launch(*cluster(1), *removing(workplace, "echo kept > $LAUNCH_OUTPUT_DIR/file"), cwd=workplace)

    assert started.succeeded()
    assert "Traceback" not in started.stderr
    assert "the chief's files, in " in started.stderr
    assert started.run_state["state"] == "done"


def test_a_restart_without_its_working_directory_says_what_is_missing(
    launch: Start, cluster: Cluster, workplace: Path
) -> None:
    restart = {"max_restarts": 2, "backoff": "10ms"}
    started = launch(*cluster(1, restart=restart), *removing(workplace, "exit 3"), cwd=workplace)

    assert started.wait() == 1
    assert "restarting all workers" in started.stderr
    assert f"cannot enter the working directory {workplace}: No such file or directory" in started.stderr
    assert "Traceback" not in started.stderr
    assert started.run_state["state"] == "failed"


def test_workers_that_start_elsewhere_are_restarted_without_it(
    launch: Start, cluster: Cluster, workplace: Path, tmp_path: Path
) -> None:
    restart = {"max_restarts": 2, "backoff": "10ms"}
    words = removing(workplace, ONCE)
    started = launch(*cluster(1, restart=restart, workdir=str(tmp_path)), *words, cwd=workplace)

    assert started.succeeded()
    assert started.run_state["result"]["attempts"] == 2
    assert started.run_state["request"]["directory"] == str(workplace)


@pytest.mark.parametrize(("then", "code"), [("exit 0", 0), ("exit 3", 1)])
def test_a_run_directory_that_goes_too_is_told(
    launch: Start, cluster: Cluster, workplace: Path, then: str, code: int
) -> None:
    restart = {"max_restarts": 1, "backoff": "10ms"}
    started = launch(*cluster(1, restart=restart), *removing(workplace, then), cwd=workplace, runs=workplace / "runs")

    assert started.wait() == code
    assert ": No such file or directory" in started.stderr
    assert "Traceback" not in started.stderr
    assert "Errno" not in started.stderr
    if code:
        assert "attempt-1: cannot be made: No such file or directory" in started.stderr


def test_a_host_is_called_again_as_before_without_it(behind_ssh: Start, workplace: Path, tmp_path: Path) -> None:
    (workplace / "config").touch()
    lose = f"[ $LAUNCH_ATTEMPT != 0 ] || {{ rm -r '{workplace}'; kill -9 $(cat ~/pid); sleep 1000; }}"
    restart = {"max_restarts": 1, "backoff": "10ms"}
    started = behind_ssh(lose, cwd=workplace, host={"ssh": {"config": "config"}}, restart=restart)

    assert started.succeeded()
    first, second = (tmp_path / "hosts" / "asked").read_text().splitlines()
    assert first == second
    assert f"-F {workplace}/config " in second


def test_a_working_directory_that_was_never_there_is_told(launch: Start, workplace: Path, tmp_path: Path) -> None:
    def enter_and_remove() -> None:
        os.chdir(workplace)
        workplace.rmdir()

    started = launch("--workers", "1", "--", "true", runs=tmp_path / "runs", preexec_fn=enter_and_remove)

    assert started.wait() == 2
    assert "launch: the working directory is not there" in started.stderr
    assert "cd to one that exists" in started.stderr


def test_a_working_directory_that_cannot_be_read_or_written_is_no_matter(
    launch: Start, workplace: Path, tmp_path: Path
) -> None:
    workplace.chmod(0o100)
    started = launch("--workers", "1", "--", "true", cwd=workplace, runs=tmp_path / "runs", preexec_fn=obey_modes)

    assert started.succeeded()
    refused = launch("--workers", "1", "--", "true", cwd=workplace, runs=Path("runs"), preexec_fn=obey_modes)
    assert refused.wait() == 2
    assert "no run directory can be made here: Permission denied" in refused.stderr
    workplace.chmod(0o700)
