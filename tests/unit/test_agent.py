from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.on_host.agent.fields import as_json
from launcher.on_host.agent.framing import Decoder, frame
from launcher.on_host.agent.ports import close_sockets, hold_ports

TEXT = st.text(max_size=20)
HEADS = st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT, max_size=4)
FRAMES = st.lists(st.tuples(HEADS, st.binary(max_size=200)), max_size=5)


@given(FRAMES, st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_out_as_they_went_in_wherever_reads_split_them(
    frames: list[tuple[dict[str, Any], bytes]], sizes: list[int]
) -> None:
    stream = b"".join(frame(as_json(head), body) for head, body in frames)
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


def lingering() -> int:
    """A port that nobody holds, and that cannot simply be bound: its last connection has just ended (TIME_WAIT)."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        with socket.create_connection(server.getsockname()):
            server.accept()[0].close()
        found: int = server.getsockname()[1]
    return found


def squatting(port: int) -> socket.socket:
    squatter = socket.socket(socket.AF_UNIX)
    squatter.bind(f"\0tf-launch port {port}")
    return squatter


def test_a_free_port_is_held_whoever_has_its_name() -> None:
    free = hold_ports(["any"], 0, 0)
    port = free["any"].getsockname()[1]
    close_sockets(free)
    with squatting(port):
        held = hold_ports(["worker-0"], port, port)

    assert held["worker-0"].getsockname()[1] == port
    close_sockets(held)


def test_a_lingering_port_whose_name_another_program_has_is_told_with_who_has_it() -> None:
    port = lingering()
    with squatting(port), pytest.raises(OSError, match="1 free ports are needed") as told:
        hold_ports(["worker-0"], port, port)

    assert "1 more may be free, but another program has the names by which runs take turns" in str(told.value)
    assert f"@tf-launch port {port}" in str(told.value)
    assert f"{port} (held by process {os.getpid()}, {Path('/proc/self/comm').read_text().strip()})" in str(told.value)


def test_another_port_of_the_range_is_taken_where_a_name_is_squatted() -> None:
    port = lingering()
    with squatting(port):
        held = hold_ports(["worker-0"], port, min(port + 50, 65535))

    assert held["worker-0"].getsockname()[1] > port
    close_sockets(held)


def test_a_port_in_use_is_not_blamed_on_a_name() -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"1 free ports are needed in {port}-{port}, 0 were found$"):
            hold_ports(["worker-0"], port, port)
