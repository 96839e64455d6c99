from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.agent.framing import Decoder, encode
from launcher.agent.ports import close_sockets, hold_ports

HEADS = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=4)
FRAMES = st.lists(st.tuples(HEADS, st.binary(max_size=200)), max_size=5)


@given(FRAMES, st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_out_as_they_went_in_wherever_reads_split_them(
    frames: list[tuple[dict[str, Any], bytes]], sizes: list[int]
) -> None:
    stream = b"".join(encode(head, body) for head, body in frames)
    decoder = Decoder()
    received: list[tuple[dict[str, Any], bytes]] = []
    start = 0
    while start < len(stream):
        size = sizes[start % len(sizes)]
        received += decoder.feed(stream[start : start + size])
        start += size
    assert received == frames


def test_a_held_port_refuses_every_other_program() -> None:
    held = hold_ports(["worker-0"], 0, 0)
    port = held["worker-0"].getsockname()[1]
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("0.0.0.0", port))
    close_sockets(held)


def test_a_held_port_refuses_another_run_that_would_hold_it() -> None:
    held = hold_ports(["worker-0"], 0, 0)
    port = held["worker-0"].getsockname()[1]
    with pytest.raises(OSError, match="1 free ports are needed"):
        hold_ports(["worker-0"], port, port)
    close_sockets(held)


def test_a_server_that_shares_its_port_listens_on_a_held_one_and_is_reached() -> None:
    held = hold_ports(["worker-0"], 0, 0)
    port = held["worker-0"].getsockname()[1]
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("0.0.0.0", port))
        server.listen()
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            with accepted:
                assert accepted.getpeername() == client.getsockname()
    close_sockets(held)


def test_a_range_gives_each_task_a_port_of_its_own_and_passes_over_a_taken_one() -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        first = taken.getsockname()[1]
        held = hold_ports(["worker-0", "worker-1"], first, min(first + 50, 65535))
    ports = [each.getsockname()[1] for each in held.values()]
    close_sockets(held)
    assert len(set(ports)) == 2
    assert first not in ports


def test_ports_are_given_back_when_the_range_is_too_small() -> None:
    free = hold_ports(["any"], 0, 0)
    port = free["any"].getsockname()[1]
    close_sockets(free)
    with pytest.raises(OSError, match=f"2 free ports are needed in {port}-{port}, 1 were found"):
        hold_ports(["worker-0", "worker-1"], port, port)
    with socket.socket() as other:
        other.bind(("0.0.0.0", port))


def test_a_port_that_an_earlier_run_has_just_left_can_be_held_again() -> None:
    held = hold_ports(["worker-0"], 0, 0)
    port = held["worker-0"].getsockname()[1]
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0", port))
        server.listen()
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()  # whoever closes first waits (TIME_WAIT)
    close_sockets(held)
    again = hold_ports(["worker-0"], port, port)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(("0.0.0.0", port))
    close_sockets(again)
