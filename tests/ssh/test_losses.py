"""Whatever dies, is cut or freezes: both sides notice, the user is told, and nothing is left on any host."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from rig import Host
from support.launching import Launch, await_true

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]

DEAF = "trap '' TERM; while :; do sleep 1; done"
STAY = ("--", "sh", "-c", f'(setsid sh -c "{DEAF}" &) ; echo ready; {DEAF}')
"""A worker that ignores SIGTERM, with a child that has left its session."""
SAVE = "trap 'echo saved; exit 0' INT TERM; echo ready; while :; do sleep .1; done 2>/dev/null"
SHORT_LEASE = {"lease": "2s"}


@pytest.fixture
def running(launch: Start, cluster: Cluster, hosts: Hosts) -> Launch:
    """Two workers on two hosts, both ready, with a short lease."""
    started = launch(*cluster(*hosts[:2], timeouts=SHORT_LEASE), *STAY)
    started.await_log(b"ready", "worker-0", "worker-1")
    return started


def await_empty(*hosts: Host) -> None:
    """Return once nothing of a run lives on them."""
    await_true(
        lambda: not any(host.processes() for host in hosts),
        "the end of all processes",
        lambda: [h.processes() for h in hosts],
    )


def test_a_killed_launcher_leaves_nothing_on_any_host(running: Launch, hosts: Hosts) -> None:
    running.signal(signal.SIGKILL)

    await_empty(*hosts)


def test_a_frozen_launcher_leaves_nothing_after_the_lease(running: Launch, hosts: Hosts) -> None:
    running.signal(signal.SIGSTOP)
    await_empty(*hosts)
    running.signal(signal.SIGCONT)

    assert running.wait() == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_reaches_every_host(launch: Start, cluster: Cluster, hosts: Hosts, number: int) -> None:
    started = launch(*cluster(*hosts), "--", "sh", "-c", SAVE)
    started.await_log(b"ready", "worker-0", "worker-1", "worker-2")
    started.signal(number)

    assert started.wait() == 128 + number
    assert all(started.log(f"worker-{n}").endswith(b"saved\n") for n in range(3))
    assert not any(host.processes() for host in hosts)


def test_a_killed_ssh_session_leaves_nothing(running: Launch, hosts: Hosts) -> None:
    hosts[1].kill_ssh_sessions()

    assert running.wait() == 1
    assert "host host2 was lost" in running.last_words
    await_empty(*hosts)


def test_a_cut_link_is_noticed_on_both_sides(running: Launch, hosts: Hosts) -> None:
    hosts[1].partition()

    assert running.wait() == 1
    assert "host host2 was lost: no sign of life for 2 s (timeouts.lease)" in running.last_words
    await_empty(*hosts)


def test_a_loss_is_foretold_and_explained_once(running: Launch, hosts: Hosts) -> None:
    hosts[1].partition()
    assert running.wait() == 1

    foretold, stopped, *rest = running.last_words.splitlines()
    assert "host2 has not answered for " in foretold
    assert foretold.endswith("s; it is given up after 2 s (timeouts.lease)")
    assert stopped.endswith("host2 was lost: stopping 1 worker by SIGTERM; SIGKILL follows after 0.2 s")
    assert "the link is cut" in rest[-1]
    assert running.last_words.count("no sign of life") == 1


def test_a_host_that_answers_again_in_time_goes_on(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(
        *cluster(*hosts[:2], timeouts={"lease": "10s"}), "--", "sh", "-c", "until [ -e go ]; do sleep .1; done"
    )
    started.await_event("task_started", count=2)
    hosts[1].freeze()
    started.await_event("host_silent")
    hosts[1].thaw()
    started.await_event("host_answers_again")
    for host in hosts[:2]:
        host.write("go", b"")

    assert started.succeeded()
    assert "host2 has not answered for " in started.stderr
    assert "host2 answers again\n" in started.stderr


def test_a_frozen_host_is_noticed_and_has_nothing_left_once_it_thaws(running: Launch, hosts: Hosts) -> None:
    hosts[1].freeze()

    assert running.wait() == 1
    assert "host host2 was lost: no sign of life for 2 s (timeouts.lease)" in running.last_words
    hosts[1].thaw()
    await_empty(*hosts)


def test_a_host_that_loses_its_power_is_told(running: Launch, hosts: Hosts) -> None:
    hosts[1].crash()

    assert running.wait() == 1
    assert "host host2 was lost" in running.last_words
    await_empty(*hosts[:1])


def test_a_run_starts_again_after_its_host_came_back(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    again = {"max_restarts": 5, "backoff": "500ms"}
    started = launch(
        *cluster(*hosts[:2], timeouts=SHORT_LEASE, restart=again),
        *("--", "sh", "-c", 'echo "attempt $LAUNCH_ATTEMPT"; [ "$LAUNCH_ATTEMPT" != 0 ] || while :; do sleep .1; done'),
    )
    started.await_log(b"attempt 0", "worker-0", "worker-1")
    hosts[1].kill_ssh_sessions()

    assert started.succeeded()
    assert started.log("worker-1", attempt=1) == b"attempt 1\n"


def test_a_host_keeps_nothing_but_the_run_directory(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    before = hosts[0].files()
    started = launch(*cluster(*hosts[:2]), "--", "true")
    assert started.succeeded()

    assert not [
        path for path in set(hosts[0].files()) - set(before) if not path.startswith("/home/tb/.tf-launch/runs/")
    ]
