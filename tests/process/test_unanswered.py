"""What is sent to a host that does not read yet, as ssh before it is connected: it arrives, unwaited for."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest
from support.launching import PATIENCE, await_true

from launcher.hosts import connection as connection_module
from launcher.hosts import events
from launcher.hosts.access import Access
from launcher.hosts.agent_process import AgentProcess
from launcher.hosts.connection import EVENT_COST, MOST_BACKLOG, TRIES, Connection
from launcher.hosts.inbox import Inbox, receive
from launcher.hosts.transport import agent_argv, opening
from launcher.on_host.agent.fields import encode
from launcher.on_host.agent.framing import GREETING
from launcher.on_host.agent.messages import FilesListed, Hello, Put, StopAsked

MORE_THAN_A_PIPE_HOLDS = b"x" * (4 << 20)
LARGE = [("large", len(MORE_THAN_A_PIPE_HOLDS))], MORE_THAN_A_PIPE_HOLDS
Connect = Callable[..., Connection]


@pytest.fixture
def inbox() -> Inbox:
    return SimpleQueue()


@pytest.fixture
def connect(inbox: Inbox) -> Iterator[Connect]:
    """A connection to what a command starts."""
    with ExitStack() as stack:
        yield lambda *argv: stack.enter_context(connected(argv, inbox))


@contextmanager
def connected(argv: tuple[str, ...], inbox: Inbox) -> Iterator[Connection]:
    way = Access("gpu-a", argv, ssh=("ssh",))
    connection = Connection("gpu-a", (), way, inbox, threading.Semaphore())
    yield connection
    connection.give_up("the test is over")
    connection.close()


def test_nobody_waits_for_a_host_to_read(connect: Connect) -> None:
    connection = connect("sh", "-c", f"head -c {len(opening())} >/dev/null; exec sleep 1000")
    connection.send(Put("/nowhere", *LARGE))
    connection.beat()

    assert not connection.lost


def test_a_connection_that_is_not_there_yet_ends_when_it_is_told_to(connect: Connect, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    connection = connect("sh", "-c", f"head -c {len(opening())} >/dev/null; echo $$ >{pid}; exec sleep 1000")
    await_true(lambda: pid.exists() and pid.read_text(), "it reads no more")
    process = psutil.Process(int(pid.read_text()))
    connection.begin_to_close()

    process.wait(PATIENCE)


DROPS = "echo 'kex_exchange_identification: Connection closed by remote host' >&2; exit 255"


def test_a_host_that_drops_every_connection_is_lost_with_what_ssh_says_of_it(
    connect: Connect, inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "PAUSE", 0.001)
    connection = connect("sh", "-c", f"echo >>{tmp_path}/tries; {DROPS}")

    lost = receive(inbox, PATIENCE)
    assert isinstance(lost, events.HostLost)
    assert "Connection closed by remote host" in lost.reason
    connection.close()
    assert len((tmp_path / "tries").read_text()) == TRIES


def test_a_host_that_is_given_up_between_two_tries_is_parted_with_once(
    connect: Connect, inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "PAUSE", PATIENCE)
    process: list[AgentProcess] = []
    parted = Connection._end_process

    def part(self: Connection, with_: AgentProcess) -> None:
        parted(self, with_)
        process.append(with_)

    monkeypatch.setattr(Connection, "_end_process", part)
    connection = connect("sh", "-c", DROPS)
    await_true(lambda: process, "the end of the first try")
    connection.give_up("nobody wants it any more")
    connection.close()

    assert len(process) == 1
    lost = receive(inbox, PATIENCE)
    assert isinstance(lost, events.HostLost)
    assert lost.reason == "nobody wants it any more"


def test_a_new_connection_does_not_wait_for_the_end_of_the_lost_one(
    connect: Connect, inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    lost = connect(
        "sh", "-c", f"trap '' TERM; head -c {len(opening())} >/dev/null; echo $$ >{pid}; exec sleep 1000 >&-"
    )
    await_true(lambda: lost.lost, "the end of its stream")
    process = psutil.Process(int(pid.read_text()))
    may_end, close = threading.Event(), lost.close
    monkeypatch.setattr(lost, "close", lambda: (may_end.wait(), close()))
    way = Access("gpu-a", agent_argv("gpu-a"))
    again = Connection("gpu-a", (), way, inbox, threading.Semaphore(), former=lost)

    assert process.is_running()
    may_end.set()
    again.send(Hello(PATIENCE, []))
    again.close()
    assert not process.is_running()


def telling(frame: bytes, many: int) -> tuple[str, str, str]:
    """A host that tells this so often, as fast as it can."""
    does = f"""
import os, sys
sys.stdin.buffer.read({len(opening())})
os.write(1, {GREETING!r})
for _ in range({many}):
    sys.stdout.buffer.write({frame!r})
"""
    return sys.executable, "-c", does


TELLS_MUCH = telling(encode(StopAsked()), 20_000)


def await_full(connection: Connection) -> None:
    await_true(lambda: connection._backlog.size > MOST_BACKLOG, "as much as may wait")


def test_a_host_that_tells_more_than_can_be_dealt_with_waits(connect: Connect, inbox: Inbox) -> None:
    await_full(connect(*TELLS_MUCH))
    told = 0
    while isinstance(receive(inbox, PATIENCE), events.StopRequested):
        told += 1
        assert inbox.qsize() <= MOST_BACKLOG // EVENT_COST + 1

    assert told == 20_000


def test_long_lists_count_for_what_they_are(connect: Connect, inbox: Inbox) -> None:
    frame = encode(FilesListed(1, [], ["x" * 100] * 900, []))
    await_full(connect(*telling(frame, 100)))

    assert inbox.qsize() <= MOST_BACKLOG // len(frame) + 1


def test_a_host_that_tells_more_than_can_be_dealt_with_lets_the_others_tell(connect: Connect, inbox: Inbox) -> None:
    await_full(connect(*TELLS_MUCH))
    waiting = inbox.qsize()
    connect(*agent_argv("gpu-b")).send(Hello(PATIENCE, []))

    await_true(lambda: inbox.qsize() > waiting, "what another host tells", inbox.qsize)


def test_all_that_was_sent_before_arrives(connect: Connect, inbox: Inbox, tmp_path: Path) -> None:
    begin = tmp_path / "begin"
    os.mkfifo(begin)
    connection = connect("sh", "-c", 'read _ <"$0"; exec "$@"', str(begin), *agent_argv("gpu-a"))
    connection.send(Put(str(tmp_path), *LARGE))
    connection.send(Hello(PATIENCE, []))
    begin.write_text("\n")

    assert isinstance(receive(inbox, PATIENCE), events.HostReady)
    assert (tmp_path / "large").read_bytes() == MORE_THAN_A_PIPE_HOLDS
