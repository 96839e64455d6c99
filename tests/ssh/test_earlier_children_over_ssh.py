"""What a login shell has started in the background, before the agent takes its place, outlives the run."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import psutil
import pytest
from rig import Host
from rig.processes import command_of
from support.launching import Launch, await_true

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]

DEAF = "trap '' TERM; while :; do sleep 1; done"
STAY = ("--", "sh", "-c", f'(setsid sh -c "{DEAF}" &) ; echo ready; {DEAF}')
"""A worker that ignores SIGTERM, with a child that has left its session."""
EARLIER = (["sleep", "1001"], ["sleep", "1002"])
BASHRC = """
[ -e begun ] && return
touch begun  # else each bash that it starts would start another
sh -c 'until [ -e under-way ]; do sleep 0.01; done; (setsid sleep 1001 &); exec sleep 1002' </dev/null >/dev/null 2>&1 &
"""
"""A child that leaves an orphan in a session of its own once the run is under way."""


def earlier(host: Host) -> list[psutil.Process]:
    return [process for process in host.processes() if command_of(process) in EARLIER]


@pytest.fixture
def running(launch: Start, cluster: Cluster, hosts: Hosts) -> Iterator[Launch]:
    """A worker on a host whose login shell has left a process, and an orphan of that by now."""
    hosts[0].write("/home/tb/.bashrc", BASHRC.encode())
    started = launch(*cluster(hosts[0], timeouts={"grace": "100ms"}), *STAY)
    started.await_log(b"ready", "worker-0")
    hosts[0].run("touch under-way")
    await_true(lambda: len(earlier(hosts[0])) == 2, "an orphan of the earlier child")
    yield started
    for process in earlier(hosts[0]):
        process.kill()


def await_only_the_earlier_ones(host: Host) -> None:
    await_true(lambda: len(host.processes()) == 2, "the end of all but the earlier children", host.processes)
    assert len(earlier(host)) == 2


def test_it_outlives_a_stop(running: Launch, hosts: Hosts) -> None:
    running.signal(signal.SIGTERM)

    assert running.wait() == 143
    await_only_the_earlier_ones(hosts[0])


def test_it_outlives_a_killed_launcher(running: Launch, hosts: Hosts) -> None:
    running.signal(signal.SIGKILL)

    await_only_the_earlier_ones(hosts[0])


@pytest.mark.parametrize("victim", ["launch-agent", "launch-guard", "in front of the guard"])
def test_nothing_else_outlives_a_part_of_the_agent(running: Launch, hosts: Hosts, victim: str) -> None:
    pair = {process.name(): process for process in hosts[0].processes() if process.name().startswith("launch-")}
    pair["in front of the guard"] = pair["launch-guard"].parent()
    os.kill(pair[victim].pid, signal.SIGKILL)

    assert running.wait() == 1
    assert "host1 was lost" in running.last_words
    await_only_the_earlier_ones(hosts[0])


def test_a_run_ends_although_an_earlier_child_holds_the_connection_open(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    """It has sshd's pipe as its stdout, so sshd waits for it."""
    hosts[0].write("/home/tb/.bashrc", b"[ -e begun ] && return; touch begun; sleep 1002 &\n")
    started = launch(*cluster(hosts[0]), "--", "true")

    assert started.succeeded()
    await_true(lambda: len(hosts[0].processes()) == 1, "the end of all but the earlier child", hosts[0].processes)
    for process in earlier(hosts[0]):
        process.kill()
