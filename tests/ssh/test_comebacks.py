"""Between two attempts hosts may go, too, one after the other: the run goes on once they are back."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from rig import Host, Rig
from support.launching import Launch, await_true

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]

ONCE = 'echo "attempt $LAUNCH_ATTEMPT"; [ "$LAUNCH_ATTEMPT" != 0 ] || exit 3'
WAITING_ONCE = 'echo "attempt $LAUNCH_ATTEMPT"; [ "$LAUNCH_ATTEMPT" != 0 ] || exec sleep 1000'
SAVING_ONCE = r"""[ "$LAUNCH_ATTEMPT" = 0 ] || exec find "$LAUNCH_OUTPUT_DIR" -name "step-1.*" -size +1c
    case $TF_CONFIG in *'"index": 0}}') ;; *) exec sleep 1000;; esac
    mkdir -p "$LAUNCH_OUTPUT_DIR"; cd "$LAUNCH_OUTPUT_DIR" || exit
    head -c 40000000 /dev/zero >step-1.data-00000-of-00001; printf 'index W\373\200\213$uG\333' >step-1.index; exit 3"""
PATIENT = {"max_restarts": 3, "backoff": "2s"}


def away(*hosts: Host) -> None:
    """They break every connection, and take none."""
    for host in hosts:
        host.stop_sshd()
    for host in hosts:
        host.kill_ssh_sessions()


def lost(started: Launch, host: Host) -> int:
    """How often a host was lost, or did not come back, so far."""
    return sum(event["type"] == "host_lost" and event["host"] == host.name for event in started.events)


def await_lost(started: Launch, host: Host, times: int) -> None:
    await_true(lambda: lost(started, host) >= times, f"{host} is lost {times} times", lambda: started.events)


def see_attempt_1(started: Launch, attempts: int = 2) -> None:
    assert started.succeeded()
    assert started.run_state["result"]["attempts"] == attempts
    for task in ("worker-0", "worker-1"):
        assert started.log(task, attempt=1) == b"attempt 1\n"


def test_a_second_host_that_is_lost_before_the_restart_is_called_again(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    started = launch(*cluster(*hosts[:2], restart=PATIENT), "--", "sh", "-c", WAITING_ONCE)
    started.await_log(b"attempt 0", "worker-0", "worker-1")
    away(hosts[1])
    started.await_event("host_empty")
    hosts[0].kill_ssh_sessions()
    await_lost(started, hosts[0], 1)
    hosts[1].start_sshd()

    see_attempt_1(started)
    # on a busy machine the backoff may be over by then: host1 is lost while its answer is waited for
    assert re.search(r"\[launch\] host1(?: was lost)?: ", started.stderr), started.stderr


def test_all_hosts_may_be_lost_during_the_backoff_twice(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster(*hosts[:2], restart=PATIENT), "--", "sh", "-c", ONCE)
    started.await_event("host_empty", count=2)
    away(*hosts[:2])
    for host in hosts[:2]:
        await_lost(started, host, 2)  # once in the backoff, once when it is called again
    hosts[0].start_sshd()
    started.await_event("host_ready", count=3)
    hosts[0].kill_ssh_sessions()
    await_lost(started, hosts[0], 3)
    hosts[1].start_sshd()

    see_attempt_1(started)


def test_a_host_that_is_back_waits_for_the_other(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster(*hosts[:2], restart=PATIENT), "--", "sh", "-c", ONCE)
    started.await_event("host_empty", count=2)
    away(*hosts[:2])
    for host in hosts[:2]:
        await_lost(started, host, 2)
    hosts[0].start_sshd()
    started.await_event("host_ready", count=3)
    await_lost(started, hosts[1], 4)
    hosts[1].start_sshd()

    see_attempt_1(started)


def test_hosts_that_stay_away_end_the_run_and_are_told_of_once(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    short = {"timeouts": {"start": "9s", "lease": "1s"}, "ssh": {"connect_timeout": "3s"}}
    started = launch(*cluster(*hosts, restart=PATIENT, **short), "--", "sh", "-c", ONCE)
    started.await_event("host_empty", count=3)
    away(hosts[1])
    hosts[2].partition()

    assert started.wait() == 3
    assert started.stderr.count("this is tried again for 9 s (timeouts.start)") <= 1, started.stderr
    assert started.stderr.count("[launch] host2: 10.77.0.12 port 22 refuses connections") <= 1, started.stderr
    assert "launch: host2: " in started.stderr
    assert started.stderr.count("host3 was lost: 10.77.0.13 port 22 does not answer") <= 1, started.stderr
    assert (started.stdout + started.stderr).count("waiting for host3 ") == 1
    assert "Traceback" not in started.stderr
    assert started.run_state["state"] == "failed"
    assert started.run_state["result"]["attempts"] == 1
    assert started.run_state["result"]["exit_code"] == 3


@pytest.mark.parametrize("which", [0, 1], ids=["the chief's", "the other"])
def test_a_host_that_is_lost_while_it_gets_the_newest_checkpoint_gets_it_later(
    launch: Start, cluster: Cluster, hosts: Hosts, which: int
) -> None:
    hosts[1].limit_rate("100mbit")
    again = {"restart": {"max_restarts": 2, "backoff": 0}, "collect_interval": 0}
    started = launch(*cluster(*hosts[:2], **again), "--", "sh", "-c", SAVING_ONCE)
    coming = "ls -d ~/.tf-launch/runs/*/.bringing-*"
    await_true(lambda: hosts[1].run(coming, check=False).returncode == 0, "the checkpoint is on its way")
    hosts[which].kill_ssh_sessions()

    assert started.succeeded()
    assert started.run_state["result"]["attempts"] == 2
    assert "it is called again for the restart" in started.stderr
    for task in ("worker-0", "worker-1"):
        assert started.log(task, attempt=1).count(b"step-1.") == 2


@pytest.fixture
def deafen(rig: Rig, environment: dict[str, str], tmp_path: Path) -> Callable[[Host], None]:
    """From now on whoever connects to a host is let in, is told nothing, and is not heard."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").write_text(f"""#!/bin/sh
for word; do
    [ "$word" = -G ] && break
    [ -e "{programs}/deaf-$word" ] && exec sleep 1000
done
exec {rig.ssh.programs}/ssh "$@"
""")
    (programs / "ssh").chmod(0o755)
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    return lambda host: (programs / f"deaf-{host.name}").touch()


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM])
def test_a_host_that_lets_in_and_says_nothing_costs_the_others_nothing_at_a_restart(
    launch: Start, cluster: Cluster, hosts: Hosts, deafen: Callable[[Host], None], number: int | None
) -> None:
    short = {"lease": "2s", "start": "6s" if number is None else "10m"}
    started = launch(*cluster(*hosts[:2], restart=PATIENT, timeouts=short), "--", "sh", "-c", WAITING_ONCE)
    started.await_log(b"attempt 0", "worker-0", "worker-1")
    deafen(hosts[1])
    hosts[1].kill_ssh_sessions()
    started.await_event("host_awaited")
    if number is not None:
        started.signal(number)

    assert started.wait() == (3 if number is None else 128 + number)
    assert lost(started, hosts[0]) == 0
    if number is None:
        assert "launch: host2: no answer in time (timeouts.start)" in started.stderr


def test_a_host_that_lets_in_and_says_nothing_costs_the_others_nothing_while_the_project_is_sent(
    launch: Start, cluster: Cluster, hosts: Hosts, deafen: Callable[[Host], None], tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/train.py").write_bytes(b"#" * 1_000_000)
    deafen(hosts[1])
    file = cluster(*hosts[:2], sync="project", timeouts={"lease": "2s", "start": "6s"})
    started = launch(*file, "--", "true")

    assert started.wait() == 3
    assert "launch: host2: no answer in time (timeouts.start)" in started.stderr
    assert lost(started, hosts[0]) == 0
