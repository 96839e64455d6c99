"""Options for ssh with a secret: `run.json` has it not, so that nobody may dial with what stands there."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from launcher.cluster.file.reading import read_cluster_file
from launcher.cluster.redaction.commands import redacted_words
from launcher.commands.collect import command as collect_command
from launcher.commands.collect import with_secrets
from launcher.errors import UsageError
from launcher.run.request import Request
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.launcher_process import Launcher
from launcher.run_directory.state import RunHost, RunState

OPTION = "ProxyCommand=nc --proxy-password hunter2 %h %p"
FILE = f"hosts:\n- host: gpu1\n  ssh: {{options: [-o, {OPTION!r}]}}\n"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster file with a password for a proxy."""
    path = tmp_path / "cluster.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def run(tmp_path: Path, cluster: Path) -> RunDirectory:
    """A run of it."""
    directory = RunDirectory.create(tmp_path / "runs", "x", datetime.now().astimezone())
    source = read_cluster_file(cluster).source
    assert source is not None
    directory.write_cluster_file(source.redacted())
    options = tuple(redacted_words(["-o", OPTION]))
    request = Request(cluster=cluster).as_record()
    hosts = (RunHost("gpu1", ("worker-0",), "/r", "/r/chief", options),)
    directory.write_state(
        RunState(
            directory.name, ("true",), "done", "", Launcher.this_process(), {}, hosts=hosts, request=request,
            inode=directory.inode,
        )
    )  # fmt: skip
    return directory


def test_a_run_has_the_options_without_the_secret(run: RunDirectory) -> None:
    assert "hunter2" not in run.run_file.read_text()
    assert json.loads(run.run_file.read_text())["hosts"][0]["ssh_options"] == [
        "-o", "ProxyCommand=nc --proxy-password <redacted> %h %p"
    ]  # fmt: skip


def test_they_are_taken_from_the_cluster_file_of_the_run(run: RunDirectory) -> None:
    (host,) = with_secrets(run.read_state(), run)

    assert host.ssh_options[:2] == ("-o", OPTION)


def test_what_is_asked_about_is_what_would_be_used(run: RunDirectory) -> None:
    """Who gives somebody a run could have written harmless options into its `run.json`, and others into its file."""
    state = run.read_state()
    shown = replace(state.hosts[0], ssh_options=("-o", "SetEnv=TOKEN=<redacted>"))
    run.write_state(replace(state, hosts=(shown,), launcher=replace(state.launcher, host="elsewhere")))

    with pytest.raises(UsageError) as refused:
        collect_command.main([str(run.path)], standalone_mode=False)

    assert "ProxyCommand=nc --proxy-password <redacted> %h %p" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_what_one_launch_alone_may_ask_for_is_not_taken_from_a_run(run: RunDirectory, cluster: Path) -> None:
    request = {**run.read_state().request, "cluster_copy": str(cluster), "trust_ssh_options": True}

    assert Request.of_record(request) == Request.of_record(run.read_state().request)


def test_a_file_that_has_changed_is_refused(run: RunDirectory, cluster: Path) -> None:
    cluster.write_text("hosts: [{host: gpu1}]")

    with pytest.raises(UsageError, match="have a secret, which is not written down"):
        with_secrets(run.read_state(), run)
