"""How fast bytes get to a port: a program counts them there, another one sends."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from launcher.on_host.probe.answers import Speed
from launcher.on_host.probe.throughput import measured

COUNTING = """\
import sys
from launcher.on_host.probe.throughput import counting
counting(int(sys.argv[1]))
print("counting", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held() -> Iterator[int]:
    """A port as an agent holds it: bound, and others of its user may listen there."""
    with socket.socket() as each:
        each.bind(("", 0))
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield each.getsockname()[1]


def test_the_speed_to_a_port_that_is_held_is_measured(held: int) -> None:
    argv = [sys.executable, "-c", COUNTING, str(held)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as counting:
        assert counting.stdout is not None
        assert counting.stdout.readline() == b"counting\n"
        told = measured("127.0.0.1", held, 1_000_000, 5.0)
        again = measured("localhost", held, 1_000_000, 5.0)
        counting.communicate(timeout=60)

    assert told.reason == again.reason == ""
    assert told.rate > 0
    assert 0 < told.round_trip < 1
    assert json.dumps(vars(told))


def test_an_address_at_which_nobody_counts_is_told(held: int) -> None:
    assert measured("127.0.0.1", held, 1_000_000, 5.0) == Speed(reason="Connection refused")
    assert measured("no.such.name.invalid", held, 1_000_000, 5.0).reason


def test_a_port_where_somebody_else_listens_has_no_speed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert measured("127.0.0.1", port, 1_000_000, 0.2) == Speed(reason="nothing arrived in time")


def test_a_connection_whose_other_end_says_no_more_has_no_speed() -> None:
    guests: list[socket.socket] = []

    def end_at_once(other: socket.socket) -> None:
        guests.append(other.accept()[0])
        guests[0].shutdown(socket.SHUT_WR)

    with socket.create_server(("127.0.0.1", 0)) as other:
        ending = threading.Thread(target=end_at_once, args=(other,))
        ending.start()
        told = measured("127.0.0.1", other.getsockname()[1], 100_000_000, 60.0)
        ending.join()
        guests[0].close()

    assert told == Speed(reason="the other side has closed the connection")
