"""A port that stands in TF_CONFIG belongs to its worker from the start to the end of the run."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator

import pytest
from support.launching import Launch, await_true, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]


def ports_of(started: Launch, tasks: int = 2) -> list[int]:
    await_true(lambda: any(each["type"] == "ports_reserved" for each in started.events), "the reservation of ports")
    (reserved,) = [each["ports"] for each in started.events if each["type"] == "ports_reserved"]
    assert len(reserved) == tasks
    return list(reserved.values())


def is_free(port: int, **options: bool) -> bool:
    with socket.socket() as mine:
        if options.get("join"):
            mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        with contextlib.suppress(OSError):
            mine.bind(("0.0.0.0", port))
            return True
    return False


@contextlib.contextmanager
def taken(*ports: int) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for port in ports:
            stack.enter_context(socket.socket()).bind(("0.0.0.0", port))
        yield


def free_range(size: int) -> range:
    """A row of ports that are all free now, below those that the system hands out."""
    for first in range(20_000, 30_000, size):
        if all(map(is_free, range(first, first + size))):
            return range(first, first + size)
    raise AssertionError("no free ports")


def spelled(ports: range) -> str:
    return f"{ports[0]}-{ports[-1]}"


def test_nobody_else_can_take_a_port_of_the_run(launch: Start) -> None:
    started = launch("--workers", "2", *program("stay", "die"))
    started.await_log(b"ready", "worker-0", "worker-1")
    ports = ports_of(started)

    assert not any(map(is_free, ports))
    started.signal(signal.SIGTERM)
    assert started.wait() == 143


def test_a_worker_can_listen_at_its_port_as_tensorflow_does(launch: Start) -> None:
    started = launch("--workers", "2", *program("serve", "join"))
    started.await_log(b"listening", "worker-0", "worker-1")
    for port in ports_of(started):
        with socket.create_connection(("127.0.0.1", port)):
            pass
    started.signal(signal.SIGTERM)

    assert started.wait() == 143


def test_every_port_is_free_again_at_the_end(launch: Start) -> None:
    started = launch("--workers", "2", *program("serve", "join"))
    started.await_log(b"listening", "worker-0", "worker-1")
    started.signal(signal.SIGTERM)
    started.wait()

    assert all(map(is_free, ports_of(started)))


def test_every_port_is_free_again_after_the_launcher_was_killed(launch: Start) -> None:
    started = launch("--workers", "2", *program("serve", "join"))
    started.await_log(b"listening", "worker-0", "worker-1")
    started.signal(signal.SIGKILL)
    started.await_nothing_left()

    assert all(map(is_free, ports_of(started)))


@pytest.mark.parametrize("asked", ["any port", "the same range"])
def test_two_runs_at_once_share_no_port(launch: Start, cluster: Cluster, asked: str) -> None:
    keys = {"ports": spelled(free_range(8))} if asked == "the same range" else {}
    options = cluster(2, **keys)
    both = [launch(*options, *program("stay", "die")) for _ in range(2)]
    for each in both:
        each.await_log(b"ready", "worker-0", "worker-1")
    ports = [port for each in both for port in ports_of(each)]
    for each in both:
        each.signal(signal.SIGTERM)

    assert len(set(ports)) == 4
    assert [each.wait() for each in both] == [143, 143]


def test_ports_come_from_the_range_of_the_cluster_file(launch: Start, cluster: Cluster) -> None:
    allowed = free_range(6)
    with taken(allowed[0], allowed[2]):
        started = launch(*cluster(3, ports=spelled(allowed)), "--", "true")
        assert started.succeeded()

    assert ports_of(started, tasks=3) == [allowed[1], allowed[3], allowed[4]]


def test_too_few_free_ports_are_told_with_their_number(launch: Start, cluster: Cluster) -> None:
    allowed = free_range(3)
    with taken(allowed[0], allowed[1]):
        started = launch(*cluster(2, ports=spelled(allowed)), "--", "touch", "started")
        code = started.wait()

    assert code == 3
    assert f"localhost: no ports for its workers: 2 free ports are needed in {spelled(allowed)}, 1 were found" in (
        started.stderr
    )
    assert not (started.runs.parent / "started").exists()
    assert started.run_state["state"] == "failed"


def test_a_program_that_cannot_share_a_port_gets_it_unheld(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(2, hold_ports=False), *program("serve", "alone", "once"))

    assert started.succeeded()
    assert re.fullmatch(rb"listening at \d+\n", started.log("worker-0"))


def test_a_program_that_cannot_share_a_held_port_fails_by_name(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(1), *program("serve", "alone"))

    assert started.wait() == 1
    assert "OSError: [Errno 98] Address already in use" in started.last_words


def test_every_attempt_has_its_ports_held(launch: Start, cluster: Cluster) -> None:
    script = '[ "$LAUNCH_ATTEMPT" = 1 ] || exit 7; exec "$@"'
    options = cluster(restart={"max_restarts": 1, "backoff": "10ms"})
    started = launch(*options, "--", "sh", "-c", script, "sh", *program("serve", "join")[1:])
    started.await_log(b"listening", "worker-0", "worker-1", attempt=1)
    plan = json.loads((started.run_directory / "attempt-1" / "plan.json").read_bytes())
    ports = [int(task["address"].rpartition(":")[2]) for task in plan["tasks"]]

    assert len(set(ports)) == 2
    assert not any(map(is_free, ports))
    started.signal(signal.SIGTERM)
    assert started.wait() == 143
