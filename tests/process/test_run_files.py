"""The run directory: whose, where, what stands in it, and what happens where it cannot be."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.launching import Launch, disk, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_nobody_else_can_read_a_run(launch: Start, cluster: Cluster, umask: int) -> None:
    started = launch(*cluster(), "--", "sh", "-c", "echo '{}' >> \"$LAUNCH_PROGRESS\"", umask=umask)
    assert started.succeeded()

    below = started.run_directory
    assert mode(below) == 0o700
    for path in below.rglob("*"):
        if path.is_dir():
            assert mode(path) == 0o700, path
        elif not path.name.endswith(".progress.jsonl"):  # the worker's own file
            assert mode(path) == 0o600, path


def test_two_runs_of_the_same_second_have_a_directory_each(launch: Start, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    started = [launch("--workers", "1", "--", "sh", "-c", f"echo {n}", runs=runs) for n in range(4)]

    assert [each.wait() for each in started] == [0] * 4
    logs = sorted(path.read_text() for path in runs.glob("2*/attempt-0/worker-0.log"))
    assert logs == ["0\n", "1\n", "2\n", "3\n"]


@pytest.mark.parametrize("name", ["with space", 'quote\'s "here"', "new\nline", "umlaut-ü-雪", "$HOME`id`", "-dash"])
def test_a_run_directory_may_have_any_name(launch: Start, cluster: Cluster, tmp_path: Path, name: str) -> None:
    started = launch(*cluster(), *program("fail", "worker-1", "3"), runs=tmp_path / name / "runs")

    assert started.wait() == 1
    assert started.log("worker-1") == b"ready\ngiving up with 3\n"
    assert all(line.startswith("[launch] ") for line in started.stderr.splitlines())


def test_a_run_that_is_under_way_says_so(launch: Start) -> None:
    started = launch("--workers", "1", *program("stay", "die"))
    started.await_log(b"ready", "worker-0")
    started.await_event("task_started")
    state = started.run_state
    started.signal(15)

    assert started.wait() == 143
    assert state["state"] == "running"
    assert state["launcher"]["pid"] == started.process.pid


@pytest.mark.parametrize(("command", "state", "code"), [("true", "done", 0), ("false", "failed", 1)])
def test_a_run_that_has_ended_says_how(launch: Start, command: str, state: str, code: int) -> None:
    started = launch("--workers", "1", "--", command)

    assert started.wait() == code
    assert started.run_state["state"] == state
    assert started.run_state["result"]["exit_code"] == code
    assert started.run_state["command"] == [command]


# ---- where it cannot be
def test_a_place_that_cannot_hold_a_run_is_told(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    started = launch("--workers", "1", "--", "touch", "started", runs=tmp_path / "file" / "runs")

    assert started.wait() == 2
    assert "file/runs: no run directory can be made here: Not a directory" in started.stderr
    assert "--run-dir" in started.stderr
    assert not (tmp_path / "started").exists()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    with disk(place, megabytes=1):
        yield place


def test_a_disk_that_is_full_from_the_start_is_told(launch: Start, tiny_disk: Path) -> None:
    fill(tiny_disk)
    started = launch("--workers", "1", *program("stay", "die"), runs=tiny_disk / "runs")

    assert started.wait() in {1, 2}
    assert "No space left on device" in started.stderr
    assert "Traceback" not in started.stderr


def test_a_disk_that_fills_up_ends_the_worker_not_the_launchers_word(
    launch: Start, cluster: Cluster, tiny_disk: Path
) -> None:
    """The worker writes its log until it cannot; `dd` says why on the same full disk, so only its exit code is left."""
    flood = "dd if=/dev/zero bs=64k count=100; exit 9"
    started = launch(*cluster(), "--", "sh", "-c", flood, runs=tiny_disk / "runs")

    assert started.wait() == 1
    assert "on localhost failed (exit code 9)" in started.stderr
    assert "Traceback" not in started.stderr
    assert "No space left on device" in started.stderr


def test_on_a_full_disk_how_a_run_ended_is_written_down(launch: Start, cluster: Cluster, tiny_disk: Path) -> None:
    script = """cd "$LAUNCH_OUTPUT_DIR"; until [ -e ../run.json ]; do sleep .05; done
        dd if=/dev/zero of=filler bs=1k 2>/dev/null; exit 0"""
    started = launch(*cluster(1), "--", "sh", "-c", script, runs=tiny_disk / "runs")

    assert started.succeeded()
    assert started.run_state["state"] == "done"
    assert "Traceback" not in started.stderr


def fill(place: Path) -> None:
    with (place / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(os.urandom(4096))
        except OSError:
            return


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """An ssh that has every host be this machine, once it has run a line of shell."""

    def write(first: str) -> dict[str, str]:
        ssh = tmp_path / "bin" / "ssh"
        ssh.parent.mkdir(exist_ok=True)
        ssh.write_text(f'#!/bin/sh\nfor line; do :; done\n{first}\nexec sh -c "$line"\n')
        ssh.chmod(0o755)
        return {"PATH": f"{ssh.parent}:{os.environ['PATH']}"}

    return write


def elsewhere(place: Path, more: str = "") -> Path:
    file = place / "c.yaml"
    file.write_text(
        f"hosts: [{{host: elsewhere, workdir: {place}, run_dir: {place / 'there'}}}]\ncommand: ['true']\n{more}"
    )
    return file


def test_a_file_that_is_saved_while_a_run_begins_changes_nothing(
    launch: Start, stand_in: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    file = elsewhere(tmp_path)
    begun_with = file.read_text()
    started = launch("--cluster", file, env=stand_in(f"echo 'hosts: [' >{file}"))

    assert started.succeeded()
    assert file.read_text() == "hosts: [\n"
    assert (started.run_directory / "cluster.yaml").read_text() == begun_with


def test_a_run_that_has_started_no_worker_goes_on_with_the_file_as_it_is(
    launch: Start, stand_in: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    file = elsewhere(tmp_path, "# PASS=hunter2\n")
    first = launch("--cluster", file, env=stand_in("exit 1"))
    assert first.wait() == 3

    resumed = launch("--run-dir", first.runs, "--resume", "latest", env=stand_in(":"))

    assert resumed.succeeded()
    assert "changed" not in resumed.stderr
