"""Dialling: an address counts where the right word comes from, a name where one of its addresses does."""

from __future__ import annotations

import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from launcher.on_host.agent.messages import DialPorts, Target
from launcher.on_host.agent.reach import DIALS, Answering, Dialling, listener, proof, reset
from launcher.on_host.agent.resolving import CANNOT_RESOLVE, Resolving

WORD = "the right word"
NOBODY = "nobody-has-this-name.invalid"


@pytest.fixture
def port() -> Iterator[int]:
    """Where somebody answers over IPv4 alone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = Answering([], WORD)
        server.setblocking(False)
        answering.listeners[server.fileno()] = server
        ANSWERING.append(answering)
        yield server.getsockname()[1]
        ANSWERING.clear()
        answering.close()


ANSWERING: list[Answering] = []


def dialled(*targets: tuple[str, int], seconds: float = 60.0, look_up: float = 60.0) -> dict[str, str]:
    """Dial, as the agent's loop does, and answer at the same time; the results by address."""
    asked = [Target(address, address, port, WORD) for address, port in targets]
    before = set(psutil.Process().children())
    dialling = Dialling(DialPorts(asked, seconds, look_up))
    while not dialling.done:
        poller = select.poll()
        for fd, wanted in dialling.polled.items():
            poller.register(fd, wanted)
        for each in ANSWERING:
            for fd in each.fds:
                poller.register(fd, select.POLLIN)
        for fd, _ in poller.poll(max(0.0, dialling.until - time.monotonic()) * 1000):
            if fd in dialling.polled:
                dialling.on_ready(fd)
            else:
                ANSWERING[0].on_ready(fd)
        if time.monotonic() >= dialling.until:
            dialling.give_up()
    assert not dialling.polled
    await_children(before)
    return dialling.results


def await_children(before: set[psutil.Process]) -> None:
    """Return once all children that are not among these have ended."""
    _, alive = psutil.wait_procs(set(psutil.Process().children()) - before)
    assert not alive


def test_an_address_is_reached_where_the_word_comes_from(port: int) -> None:
    assert dialled(("127.0.0.1", port)) == {"127.0.0.1": ""}


def test_a_name_is_reached_at_any_of_its_addresses(port: int) -> None:
    """On most machines `localhost` stands for ::1, too, where nobody answers."""
    assert dialled(("localhost", port)) == {"localhost": ""}


def test_a_name_that_nobody_has_is_told_apart_from_a_port_where_nobody_answers(port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    results = dialled(("127.0.0.2", closed), (NOBODY, port), ("127.0.0.1", port))

    assert results["127.0.0.1"] == ""
    assert results["127.0.0.2"] == "Connection refused"
    assert results[NOBODY].startswith(f"{CANNOT_RESOLVE}{NOBODY}: ")


@pytest.mark.parametrize("name", ["", "a" * 300, "two..dots", "with space", "umlaut-ü", "a\0b"])
def test_what_can_be_no_name_is_told_as_one(name: str) -> None:
    assert dialled((name, 1))[name].startswith((f"{CANNOT_RESOLVE}{name}: ", "Connection refused"))


def test_a_name_that_is_still_looked_up_when_the_time_is_over_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launcher.on_host.agent.resolving.addresses_of", lambda name: signal.pause())
    results = dialled((NOBODY, 1), look_up=0.0)

    assert results == {NOBODY: f"{CANNOT_RESOLVE}{NOBODY}: no answer in 0 s"}


def test_a_look_up_may_take_longer_than_dialling() -> None:
    results = dialled((NOBODY, 1), seconds=0.0)

    assert "no answer" not in results[NOBODY]


def test_a_look_up_that_nobody_waits_for_leaves_no_process() -> None:
    children = set(psutil.Process().children())
    before = len(list(Path("/proc/self/fd").iterdir()))
    resolving = Resolving([NOBODY])
    resolving.close()

    await_children(children)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def guest_of(answering: Answering, server: socket.socket) -> socket.socket:
    """Somebody who has connected, and has been answered."""
    guest = socket.create_connection(server.getsockname())
    answering.on_ready(server.fileno())
    return guest


def test_who_knows_the_word_and_is_cut_off_at_once_disturbs_nobody(port: int) -> None:
    (answering,) = ANSWERING
    (server,) = answering.listeners.values()
    guest = guest_of(answering, server)
    guest.send(proof(WORD.encode(), DIALS, guest.recv(100)))
    reset(guest)
    (fd,) = set(answering.fds) - {server.fileno()}
    answering.on_ready(fd)

    assert answering.fds == [server.fileno()]
    assert dialled(("127.0.0.1", port)) == {"127.0.0.1": ""}


def test_only_who_knows_the_word_is_answered_and_noted(port: int) -> None:
    (answering,) = ANSWERING
    (server,) = answering.listeners.values()
    with guest_of(answering, server) as guest:
        challenge = guest.recv(100)
        guest.send(proof(b"another word", DIALS, challenge))
        answering.on_ready(answering.fds[-1])
        with pytest.raises(ConnectionResetError):
            guest.recv(100)
    assert not answering.seen

    assert dialled(("127.0.0.1", port)) == {"127.0.0.1": ""}
    assert answering.seen == {"127.0.0.1"}


def test_a_proof_that_was_overheard_serves_nobody_else(port: int) -> None:
    (answering,) = ANSWERING
    (server,) = answering.listeners.values()
    with guest_of(answering, server) as one, guest_of(answering, server) as other:
        overheard = proof(WORD.encode(), DIALS, one.recv(100))
        assert other.recv(100)
        other.send(overheard)
        answering.on_ready(answering.fds[-1])
        with pytest.raises(ConnectionResetError):
            other.recv(100)
    assert not answering.seen


def test_who_says_nothing_keeps_nobody_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launcher.on_host.agent.reach.GUESTS", 3)
    (answering,) = ANSWERING
    (server,) = answering.listeners.values()
    with ExitStack() as silent:
        for _ in range(5):
            silent.enter_context(guest_of(answering, server))

        assert len(answering.fds) == 1 + 3
        assert dialled(("127.0.0.1", port)) == {"127.0.0.1": ""}


def test_whoever_answers_sees_where_we_come_from_on_each_way_to_a_name() -> None:
    """TensorFlow may take any address of a name."""
    names = {each[4][0] for each in socket.getaddrinfo("localhost", 1, type=socket.SOCK_STREAM)}
    answering = Answering([], WORD)
    server = listener(0)
    answering.listeners[server.fileno()] = server
    ANSWERING.append(answering)
    try:
        assert dialled(("localhost", server.getsockname()[1])) == {"localhost": ""}
        assert answering.seen == names if server.family == socket.AF_INET6 else {"127.0.0.1"}
    finally:
        ANSWERING.clear()
        answering.close()
