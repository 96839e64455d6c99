"""Which agents are started on a guess: those that the run is going to want, or none."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from launcher.cluster.defaults import LEASE
from launcher.cluster.file.reading import read_cluster_file
from launcher.commands.collect import as_host
from launcher.hosts.access import access
from launcher.hosts.head_start import likely_agents, runs_here
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.launcher_process import Launcher
from launcher.run_directory.state import RunHost, RunState

FILES = {
    "a list": "hosts:\n  - host: gpu-a\n  - host: me@gpu-b\n    workers: 2\n",
    "one line": "hosts: [{host: gpu-a}, {workers: 2, host: me@gpu-b}]",
    "JSON": '{"hosts": [{"host": "gpu-a"}, {"host": "me@gpu-b"}]}',
    "comments": "# host: gpu-x\nhosts:\n  - host: gpu-a # - host: gpu-y\n  - {host: me@gpu-b}\n",
    "this machine too": "hosts: [{host: localhost}, {host: gpu-a}]",
    "options of ssh": "hosts: [{host: gpu-a}]\nssh: {connect_timeout: 3s}\n",
    "options of one host": "hosts: [{host: gpu-a, ssh: {options: [-4]}}, {host: localhost}]\n",
    "another lease": "hosts: [{host: gpu-a}]\ntimeouts: {lease: 1m}\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_of_the_hosts_of_a_file_this_machine_alone_is_started_early(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    file = read_cluster_file(path)
    wanted = [tuple(access(host, file.timeouts.lease).argv) for host in file.hosts]

    assert likely_agents(["--cluster", str(path)]) == [each for each in wanted if each[0] != "ssh"]


def test_a_command_that_starts_no_workers_gets_no_head_start(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("hosts: [{host: localhost}]")

    assert likely_agents(["doctor", "--cluster", str(path)]) == []


@pytest.mark.parametrize("option", [["-c", "{}"], ["-c{}"], ["--cluster", "{}"], ["--cluster={}"]])
def test_the_cluster_file_is_found_however_it_is_given(tmp_path: Path, option: list[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("hosts: [{host: gpu-a}]")
    words = [word.format(path) for word in option]

    assert not runs_here(words)
    path.write_text("hosts: [{host: localhost}]")
    assert runs_here(words)


def test_a_command_line_without_a_word_means_this_machine() -> None:
    assert runs_here([])


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    os.mkfifo(path)

    assert likely_agents(["--cluster", str(path)]) == []


@pytest.mark.parametrize("option", ["--help", "--dry-run", "--version"])
def test_what_starts_nothing_starts_no_agent(option: str) -> None:
    assert likely_agents(["--workers", "2", option]) == []


@pytest.fixture
def state(tmp_path: Path) -> RunState:
    """Of a run in `tmp_path`/runs that has two hosts behind ssh."""
    hosts = (
        RunHost("localhost", ("worker-0",), "/r", "/r/chief"),
        RunHost("gpu-a", ("worker-1",), "/a", "/a/output"),
        RunHost("me@gpu-b", ("worker-2",), "/b", "/b/output", ("-p", "2222"), 3.0),
    )
    state = RunState("run", ("true",), "done", "", Launcher.this_process(), {}, hosts=hosts)
    run = RunDirectory.create(tmp_path / "runs", "run", datetime(2026, 11, 20))
    run.write_state(replace(state, inode=run.inode))
    return state


@pytest.mark.parametrize(
    "arguments",
    [[], ["latest"], ["20261120-000000-run"], ["runs/latest"], ["--run-dir", "runs"], ["--run-dir=./runs", "latest"]],
)
def test_the_hosts_of_a_run_are_guessed_as_collect_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: RunState, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    wanted = [tuple(access(as_host(host), LEASE).argv) for host in state.hosts if host.name != "localhost"]
    assert likely_agents(["collect", *arguments]) == wanted


def test_a_run_that_was_made_elsewhere_and_has_options_for_ssh_gets_no_head_start(
    tmp_path: Path, state: RunState
) -> None:
    (run,) = (tmp_path / "runs").glob("2*")
    shutil.copytree(run, tmp_path / "copy")

    assert len(likely_agents(["collect", str(run)])) == 2
    assert likely_agents(["collect", str(tmp_path / "copy")]) == []


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_run_that_others_can_write_to_gets_no_head_start(tmp_path: Path, state: RunState, mode: int) -> None:
    (run,) = (tmp_path / "runs").glob("2*")
    run.chmod(mode)

    assert likely_agents(["collect", str(run)]) == []


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"{}", b'{"hosts": [{}]}', b'{"hosts": [{"name": 3}]}', b"\xff", b"[" * 1_000_000),
        b'{"hosts": [{"name": "a", "ssh_options": [], "connect_timeout": Infinity}]}',
    ],
)
def test_a_run_that_cannot_be_read_is_left_to_who_tells_of_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    (tmp_path / "run.json").chmod(0o600)

    assert likely_agents(["collect", str(tmp_path)]) == []
    assert likely_agents(["collect", "--run-dir", str(tmp_path)]) == []


def test_a_program_of_that_name_is_no_command() -> None:
    assert len(likely_agents(["--workers", "2", "collect"])) == 1


def test_an_option_of_the_command_is_none_of_ours() -> None:
    assert len(likely_agents(["--workers", "2", "--", "train", "--help"])) == 1


@pytest.mark.parametrize("content", [None, b"\xff\xfe"], ids=["missing", "no text"])
def test_a_file_that_cannot_be_read_is_left_to_who_tells_of_it(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "c.yaml"
    if content is not None:
        path.write_bytes(content)

    assert likely_agents(["--cluster", str(path)]) == []
