"""The project on real hosts: over the agent's connection, by rsync, and what happens where that fails."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from rig import Host
from support.launching import Launch, await_true

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]
Write = Callable[..., Path]

THERE = "/home/tb/project"
LARGE = 9 << 20
"""Bytes: enough for rsync."""
REAL_RSYNC = shutil.which("rsync")
SHOW = "import os, model; print(os.getcwd(), model.NAME)"


@pytest.fixture
def project(tmp_path: Path) -> Write:
    """Write files of the project, which is beside the cluster file."""

    def write(**files: str | bytes) -> Path:
        for name, content in files.items():
            path = tmp_path / "project" / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / "project"

    return write


@pytest.fixture
def rsync(tmp_path: Path, environment: dict[str, str], need: Callable[..., None]) -> Callable[[str], Path]:
    """Put a program in the place of this machine's rsync; it tells its arguments and environment to a file first."""
    need("rsync")

    def replace(script: str = 'exec "$REAL" "$@"') -> Path:
        directory = tmp_path / "programs"
        directory.mkdir()
        told = tmp_path / "rsync-was-called-with"
        program = directory / "rsync"
        program.write_text(f'#!/bin/sh\nREAL={REAL_RSYNC}\necho "$@" >>{told}\n{script}\n')
        program.chmod(0o755)
        environment["PATH"] = f"{directory}:{environment['PATH']}"
        return told

    return replace


def placed(host: Host, *names: str) -> list[bytes]:
    return [host.read(f"{THERE}/{name}") for name in names]


def on(host: Host, workdir: str = THERE) -> dict[str, object]:
    return {"host": host.name, "workers": 1, "workdir": workdir}


# ---- what arrives, and how
def test_tasks_run_the_project_on_every_host(launch: Start, cluster: Cluster, hosts: Hosts, project: Write) -> None:
    project(train=SHOW, model__init="", **{"model.py": "NAME = 'first'"})
    options = cluster(on(hosts[0]), {"host": hosts[1].name}, sync="project", command=["python", "train"])
    started = launch(*options)
    assert started.succeeded()

    first, second = (started.log(task).decode().split() for task in ("worker-0", "worker-1"))
    assert first == [THERE, "first"]
    assert second[0].startswith("/home/tb/.tf-launch/projects/project-")
    for host in hosts[:2]:
        assert f"[launch] {host.name}: project synced, 3 of 3 files, 62 bytes\n" in started.stderr


def test_nothing_is_said_when_quiet(launch: Start, cluster: Cluster, hosts: Hosts, project: Write) -> None:
    project(a="1")
    started = launch(*cluster(on(hosts[0]), sync="project"), "--quiet", "cat", "a")
    assert started.succeeded()

    assert started.stderr == ""


def test_on_this_machine_tasks_start_in_the_project_itself(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write
) -> None:
    root = project(a="1")
    started = launch(*cluster({"host": "localhost"}, on(hosts[0]), sync="project"), "--", "pwd")
    assert started.succeeded()

    assert [started.log(task).decode().strip() for task in ("worker-0", "worker-1")] == [str(root), THERE]
    assert not (root / ".tf-launch-sync.json").exists()


# ---- rsync
def test_much_is_brought_by_rsync(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write, rsync: Callable[..., Path]
) -> None:
    names = ("data", "sub/a name", "it's")
    contents = [os.urandom(LARGE), b"", b"x"]
    project(**dict(zip((name.replace("/", "__") for name in names), contents, strict=True)))
    told = rsync()
    started = launch(*cluster(*map(on, hosts[:2]), sync="project"), "--", "true")
    assert started.succeeded()

    assert len(told.read_text().splitlines()) == 2
    assert "a name" not in told.read_text()
    for host in hosts[:2]:
        assert placed(host, *names) == contents
        assert f"{host.name}: project synced, 3 of 3 files, 9.4 MB\n" in started.stderr
        assert ".tf-launch-sync.new" not in host.run(["ls", "-A", THERE]).stdout
    assert "synced" not in launch(*cluster(*map(on, hosts[:2]), sync="project"), "--", "true").stderr


def test_little_needs_no_second_connection(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write, rsync: Callable[..., Path]
) -> None:
    project(a="1")
    told = rsync()
    assert launch(*cluster(on(hosts[0]), sync="project"), "--", "true").succeeded()

    assert not told.exists()


@pytest.mark.parametrize(
    "script", ["echo broken >&2; exit 12", '"$REAL" "$@"; exit 23', 'rm "$0"; kill -9 $$'], ids=["no", "late", "killed"]
)
def test_where_rsync_fails_the_rest_comes_without_it(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write, rsync: Callable[..., Path], script: str
) -> None:
    content = os.urandom(LARGE)
    project(data=content, other="1")
    rsync(script)
    started = launch(*cluster(on(hosts[0]), sync="project"), "--", "true")
    assert started.succeeded()

    assert "[launch] host1: rsync failed (" in started.stderr
    assert placed(hosts[0], "data", "other") == [content, b"1"]


def test_a_noisy_login_does_not_keep_the_project_back(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write, rsync: Callable[..., Path]
) -> None:
    hosts[0].write("/home/tb/.bashrc", b"echo Welcome\n")
    content = os.urandom(LARGE)
    project(data=content)
    rsync()
    assert launch(*cluster(on(hosts[0]), sync="project"), "--", "true").succeeded()

    assert placed(hosts[0], "data") == [content]


# ---- what goes wrong
def refused(started: Launch) -> str:
    assert started.wait() == 3, started.stderr
    return started.stderr


def test_a_file_that_was_changed_on_a_host_ends_the_launch(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write
) -> None:
    project(train="1", other="1")
    options = cluster(*map(on, hosts[:2]), sync="project", command=["true"])
    assert launch(*options).succeeded()
    hosts[1].write(f"{THERE}/train", b"mine")

    said = refused(launch(*options))

    assert f"launch: host2: {THERE}/train was changed there since it was sent\n" in said
    assert "host1" not in said
    assert placed(hosts[1], "train") == [b"mine"]


@pytest.mark.parametrize("by", ["rsync", "agent"])
def test_a_disk_that_gets_full_is_named_and_no_half_file_is_left(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write, rsync: Callable[..., Path], by: str
) -> None:
    started = launch_slowly(launch, cluster, hosts[0], project, rsync, by)
    hosts[0].fill_disk()

    said = refused(started)

    assert re.search(r"launch: host1: /home/tb/project/(f..|.tf-launch\S+): No space left on device; make room", said)
    there = hosts[0].run(["find", THERE, "-type", "f", "-not", "-name", ".tf-launch-sync.json", "-size", "-1024k"])
    assert there.stdout == ""


def test_a_disk_that_is_too_small_is_named_before_anything_is_sent(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write
) -> None:
    root = project(a="1")
    with (root / "data").open("wb") as data:
        data.truncate(1 << 30)

    said = refused(launch(*cluster(on(hosts[0]), sync="project"), "--", "true"))

    assert f"launch: host1: {THERE}: the project needs 1.1 GB there, 2" in said
    assert hosts[0].run(["ls", "-A", THERE]).stdout == ""


def test_a_directory_that_cannot_be_written_is_named(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write
) -> None:
    project(a="1")

    said = refused(launch(*cluster(on(hosts[0], "/root/project"), sync="project"), "--", "true"))

    assert "launch: host1: /root/project: Permission denied; change its permissions, or name a `workdir` that" in said


def launch_slowly(
    launch: Start, cluster: Cluster, host: Host, project: Write, rsync: Callable[..., Path], by: str
) -> Launch:
    """A launch whose project is arriving on the host: f00 to f11, 1 MiB each."""
    project(**{f"f{n:02}": os.urandom(1 << 20) for n in range(12)})
    rsync('exec "$REAL" "$@"' if by == "rsync" else "exit 1")
    host.limit_rate("20mbit")
    started = launch(*cluster(on(host), sync="project", timeouts={"lease": "1s"}), "--", "true")
    await_true(lambda: "f03" in host.run(f"ls {THERE} 2>&1", check=False).stdout, "a part of the project is there")
    return started


@pytest.mark.parametrize("by", ["rsync", "agent"])
def test_a_link_that_is_cut_is_told_and_the_next_launch_goes_on(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write, rsync: Callable[..., Path], by: str
) -> None:
    started = launch_slowly(launch, cluster, hosts[0], project, rsync, by)
    hosts[0].partition()

    assert "launch: host1: no sign of life for 1 s (timeouts.lease)" in refused(started)
    hosts[0].clear()
    await_true(lambda: not hosts[0].processes(), "the end of what the lost launch ran there")
    assert launch(*cluster(on(hosts[0]), sync="project"), "--", "true").succeeded()
    names = [f"f{n:02}" for n in range(12)]
    assert placed(hosts[0], *names) == [(project() / name).read_bytes() for name in names]


@pytest.mark.parametrize("by", ["rsync", "agent"])
def test_ctrl_c_ends_the_sending_and_leaves_nothing_that_runs(
    launch: Start, cluster: Cluster, hosts: Hosts, project: Write, rsync: Callable[..., Path], by: str
) -> None:
    started = launch_slowly(launch, cluster, hosts[0], project, rsync, by)
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert not started.alive()
