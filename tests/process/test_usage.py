"""What is wrong with a command line or a cluster file is said before anything is started or written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.launching import Launch, program
from support.odd_ssh import OddHosts

Start = Callable[..., Launch]

TOUCH = ("--", "touch", "started")


def refused(started: Launch) -> str:
    """What the launcher says; proves that it did nothing else."""
    assert started.wait() == 2
    assert started.stdout == ""
    assert "Traceback" not in started.stderr
    assert not (started.runs.parent / "started").exists()
    assert not started.runs.exists()
    return started.stderr


def test_all_mistakes_of_a_cluster_file_are_said_at_once_with_their_places(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("hosts:\n  - host: localhost\n    wrokers: 2\n    gpus: none\ntimeout: {}\n")

    said = refused(launch("--cluster", "bad.yaml", *TOUCH))

    for place in ("bad.yaml:3:5: ", "bad.yaml:4:11: ", "bad.yaml:5:1: "):
        assert place in said
    assert "workers" in said
    assert "timeouts" in said


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "cluster.yaml"),
        (lambda path: path.mkdir(), "cluster.yaml"),
        (lambda path: path.write_bytes(b""), "cluster.yaml:1:1"),
        (lambda path: path.write_bytes(b"hosts:\n\t- host: localhost\n"), "cluster.yaml:2:1"),
        (lambda path: path.write_bytes(b"hosts: \xff\n"), "cluster.yaml:1:8"),
    ],
    ids=["missing", "directory", "empty", "tab", "no utf-8"],
)
def test_a_file_that_cannot_be_read_is_named(
    launch: Start, tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    make(tmp_path / "cluster.yaml")

    assert said in refused(launch("--cluster", "cluster.yaml", *TOUCH))


def test_a_pipe_is_refused_at_once(launch: Start, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cluster.yaml")

    assert "a cluster file must be a regular file" in refused(launch("--cluster", "cluster.yaml", *TOUCH))


@pytest.mark.parametrize(
    ("text", "options"),
    [("hosts: [{host: gpu-a}, {host: gpu-b, wrokers: 2}]", ()), ("hosts: [{host: gpu-a}]", ("--wokers", "2"))],
    ids=["in the file", "in the command line"],
)
def test_no_host_is_dialled_where_there_is_a_mistake(
    launch: Start, tmp_path: Path, text: str, options: tuple[str, ...]
) -> None:
    (tmp_path / "cluster.yaml").write_text(text)
    hosts = OddHosts(tmp_path / "hosts")

    refused(launch("--cluster", "cluster.yaml", *options, *TOUCH, env=hosts.environment(os.environ["PATH"])))

    assert not hosts.times_started("gpu-a")


@pytest.mark.parametrize(
    "arguments",
    [(), TOUCH, ("--workers", "0", *TOUCH), ("--workers", "two", *TOUCH), ("--wokers", "2", *TOUCH)],
)
def test_a_wrong_command_line_is_told(launch: Start, arguments: tuple[str, ...]) -> None:
    assert "--workers" in refused(launch(*arguments))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cluster", "c.yaml", "--workers", "2"), "--cluster and --workers exclude each other"),
        (("--cluster", "c.yaml", "-H", "a:2"), "--cluster and --hosts exclude each other"),
        (("--hosts", "a:2", "-n", "2"), "--hosts and --workers exclude each other"),
    ],
)
def test_options_that_say_where_workers_run_exclude_each_other(
    launch: Start, options: tuple[str, ...], said: str
) -> None:
    assert said in refused(launch(*options, *TOUCH))


def test_a_mistake_in_a_list_of_hosts_is_told_before_any_of_them_is_dialled(launch: Start, tmp_path: Path) -> None:
    hosts = OddHosts(tmp_path / "hosts")

    said = refused(launch("-H", "gpu-a:2,gpu-b:two", *TOUCH, env=hosts.environment(os.environ["PATH"])))

    assert "launch: --hosts gpu-b:two: this is no host with a number of workers; allowed is HOST" in said
    assert not hosts.times_started("gpu-a")


@pytest.mark.parametrize(("setting", "shown"), [("=value", "=..."), ("NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE")])
def test_a_setting_without_a_name_or_a_value_is_told(launch: Start, setting: str, shown: str) -> None:
    assert f"--env {shown}: write KEY=VALUE" in refused(launch("--workers", "1", "--env", setting, *TOUCH))


@pytest.mark.parametrize("setting", ["TF_CONFIG={}", "LAUNCH_ATTEMPT=7"])
def test_a_setting_of_the_launchers_own_is_refused(launch: Start, setting: str) -> None:
    assert setting.partition("=")[0] in refused(launch("--workers", "1", "--env", setting, *TOUCH))


def test_messages_name_the_command_as_it_was_called(launch: Start, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "launcher"]
    as_called = {**environment, "LAUNCH_CALLED_AS": "scripts/launch"}

    def said(*words: str) -> str:
        done = subprocess.run([*argv, *words], env=as_called, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    assert "(see scripts/launch --help)" in said()
    assert "Usage: scripts/launch collect [OPTIONS] [RUN]" in said("collect", "--help")
    assert "  scripts/launch doctor -c FILE" in said("--help")
    assert "Usage: scripts/launch [OPTIONS]" in said("--wokers", "2")
    variables = launch("--workers", "1", *program("report"), env={"LAUNCH_CALLED_AS": "x"}).report()["env"]
    assert "LAUNCH_CALLED_AS" not in variables


def test_help_and_version_need_nothing_else(launch: Start) -> None:
    for option, words in (("--help", "-m launcher [OPTIONS]"), ("--version", "launch, version")):
        started = launch(option)
        assert started.wait() == 0
        assert words in " ".join(started.stdout.split())  # not the line: a long path makes it wrap


@pytest.mark.parametrize("text", ["0", "5x", "-1m", "8000000", ""])
def test_a_stall_that_is_no_duration_is_refused(launch: Start, text: str) -> None:
    said = refused(launch("--workers", "1", "--stall", text, *TOUCH))

    assert f"--stall {text}: allowed is a duration above 0 and of at most 7 days, such as 500ms, 10s, 10m, 1h" in said


def test_a_keras_that_there_is_not_is_refused(launch: Start) -> None:
    assert "'4' is not one of '2', '3'" in refused(launch("--workers", "1", "--keras", "4", *TOUCH))


def test_the_training_program_of_our_own_is_refused_keras_2(launch: Start) -> None:
    assert "is written for Keras 3; name a command of your own" in refused(launch("--workers", "1", "--keras", "2"))
