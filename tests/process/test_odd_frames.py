"""A host that sends what no agent of ours does is lost at once, by name, and harms nobody: the whole launcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.launching import PROGRAMS, Launch, await_true, cluster_file
from support.odd_ssh import OddHosts

sys.path.insert(0, str(PROGRAMS))
from odd_frames import MODES

Start = Callable[..., Launch]
WORK = 'mkdir -p "$LAUNCH_OUTPUT_DIR"; echo hello | tee "$LAUNCH_OUTPUT_DIR/notes.txt"'
READABLE = {"real-time-signal", "no-answer"}
"""What a host may say."""


@pytest.fixture
def hosts(tmp_path: Path) -> OddHosts:
    return OddHosts(tmp_path / "hosts")


@pytest.fixture
def on(launch: Start, hosts: OddHosts, tmp_path: Path) -> Callable[..., Launch]:
    """Start a program with its chief on a host of this name; return once nothing of it is left."""

    def run(host: str, address: str = "127.0.0.1", **timeouts: str) -> Launch:
        where = cluster_file(tmp_path, [{"host": host, "workers": 1, "address": address}], timeouts, {})
        started = launch(*where, "--", "sh", "-c", WORK, env=hosts.environment(os.environ["PATH"]))
        started.wait()
        await_true(lambda: not started.alive(), "the end of the agent, whose link was cut")
        return started

    return run


@pytest.mark.parametrize("mode", sorted(MODES.keys() - READABLE))
def test_what_cannot_be_read_loses_the_host_at_once(on: Callable[..., Launch], mode: str) -> None:
    started = on(f"odd-{mode}", lease="1h")

    assert started.wait() in {1, 3}
    assert f"odd-{mode}" in started.stderr
    assert "it sent something unreadable: " in started.stderr
    assert "Traceback" not in started.stderr
    assert started.stderr.isascii()
    assert not (started.run_directory / "run.json").exists() or started.run_state["state"] == "failed"


def test_a_signal_without_a_name_is_told_by_its_number(on: Callable[..., Launch]) -> None:
    started = on("odd-real-time-signal")

    assert started.wait() == 1
    assert "signal 40" in started.stderr
    assert "Traceback" not in started.stderr


def test_a_host_that_does_not_tell_whom_it_has_reached_is_named(on: Callable[..., Launch]) -> None:
    started = on("odd-no-answer", address="192.0.2.1", start="2s")

    assert started.wait() == 3
    assert "launch: odd-no-answer: no answer in time (timeouts.start)" in started.stderr
    assert "doctor` with the same options looks at every host" in started.stderr


def test_a_login_shell_that_prints_without_end_is_named_with_the_remedy(on: Callable[..., Launch]) -> None:
    started = on("printing")

    assert started.wait() == 3
    assert "printing: the login shell there prints without end" in started.stderr
    assert "look at its ~/.bashrc" in started.stderr
