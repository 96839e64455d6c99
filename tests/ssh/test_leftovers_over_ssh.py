"""`launch leftovers` on real hosts: what a run has left there, and nothing of a run that is under way."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable

import pytest
from rig import Host, Rig
from support.launching import ROOT, Launch, await_true

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]
Leftovers = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def leftovers(rig: Rig, environment: dict[str, str]) -> Leftovers:
    """Run `launch leftovers ARGUMENTS` on the login machine."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [*rig.login.words, str(ROOT / "scripts/launch"), "leftovers", *arguments]
        return subprocess.run(words, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    return run


def test_a_run_that_has_ended_leaves_its_directory_which_can_be_removed(
    launch: Start, cluster: Cluster, hosts: Hosts, leftovers: Leftovers
) -> None:
    started = launch(*cluster(*hosts[:2]), "--", "true")
    assert started.succeeded()
    run = started.run_directory.name

    found = leftovers("host1", "host2").stdout
    assert found.count(f"  /home/tb/.tf-launch/runs/{run}-") == 2
    assert "process" not in found
    removed = leftovers("host1", "--remove", run, "--yes")
    assert removed.stdout.endswith("host1: removed\n")
    again = leftovers("host1", "host2").stdout
    assert again.startswith("host1:\n  nothing: ")
    assert run in again.partition("host2:")[2]


def test_a_run_that_waits_for_its_restart_is_under_way(
    launch: Start, cluster: Cluster, hosts: Hosts, leftovers: Leftovers
) -> None:
    started = launch(*cluster(hosts[0], restart={"max_restarts": 1, "backoff": "10m"}), "--", "false")
    started.await_event("log_ended")
    await_true(lambda: "its run is under way" in leftovers("host1").stdout, "the run with nothing but its agent")

    removed = leftovers("host1", "--remove", started.run_directory.name, "--yes")
    assert "stays: its run is under way" in removed.stderr
    started.signal(signal.SIGINT)
    started.wait()


def test_hosts_that_fail_are_told_after_those_that_answer(hosts: Hosts, leftovers: Leftovers) -> None:
    with hosts[1].without_python():
        asked = leftovers("host1", "host2")

    assert asked.returncode == 3
    assert asked.stdout.startswith("host1:\n")
    assert asked.stderr.startswith("leftovers: host2: ")


def test_a_run_that_is_stopped_on_one_host_ends_on_all_of_them_and_is_no_success(
    launch: Start, cluster: Cluster, hosts: Hosts, leftovers: Leftovers
) -> None:
    saves = "trap 'echo saved; exit 0' TERM; echo began; while :; do sleep 0.05; done"
    started = launch(*cluster(*hosts[:2]), "--", "sh", "-c", saves)
    started.await_log(b"began", "worker-0", "worker-1")

    stopped = leftovers("host1", "--stop", started.run_directory.name, "--yes", "--grace", "100")

    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert started.wait() == 128 + signal.SIGTERM
    assert "host1 was asked to end the run: stopping 2 workers by SIGTERM" in started.stderr
    assert [started.log(task).split().count(b"saved") for task in ("worker-0", "worker-1")] == [1, 1]
