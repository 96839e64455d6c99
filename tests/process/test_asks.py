"""Asking a real agent: programs that answer, and programs that do everything but that."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import pytest
from support.launching import MARK, PATIENCE, await_true, marked_processes

from launcher.cluster.cluster import Host
from launcher.cluster.spec import Task
from launcher.hosts import events
from launcher.hosts.access import access
from launcher.hosts.one_host import HostConnection, Inbox, receive
from launcher.hosts.transport import EXAMINER
from launcher.on_host.agent.messages import Command, Event, Hello, Reserve
from launcher.on_host.examiner.messages import (
    EVENTS,
    AskProgram,
    CountBytes,
    CountingBytes,
    MeasureSpeed,
    ProgramEnded,
    ProgramNotRun,
    ProgramSaid,
    SpeedMeasured,
    TellProgram,
)
from launcher.on_host.examiner.questions import LAST_WORDS, MOST

LEASE = 15.0
LONG = 60.0
"""Seconds; no test waits for them."""
SHORT = 0.3
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True)\n"


class Asked:
    """A host that is asked, and what it says."""

    def __init__(self) -> None:
        self.inbox: Inbox = SimpleQueue()
        self.task = Task("worker", 0)
        host = Host("localhost", (self.task,))
        way = replace(access(host, LEASE), packages=EXAMINER)
        self.connection = HostConnection(host.name, host.tasks, way, self.inbox, threading.Semaphore(), known=EVENTS)
        self.send(Hello(LEASE, []))

    def send(self, command: Command) -> None:
        self.connection.send(command)

    def next(self, *kinds: type[Event]) -> Any:
        """The next answer of these types."""
        deadline = time.monotonic() + PATIENCE
        while (event := receive(self.inbox, deadline - time.monotonic())) is not None:
            assert not isinstance(event, events.HostLost), event
            if isinstance(event, events.Answer) and isinstance(event.message, kinds):
                return event.message
        raise AssertionError(f"no {kinds}")

    def held_port(self) -> int:
        """A port for the task."""
        deadline = time.monotonic() + PATIENCE
        while not isinstance(event := receive(self.inbox, deadline - time.monotonic()), events.PortsReserved):
            assert event is not None
        return event.ports[self.task]

    def ask(self, program: str, seconds: float = LONG, said: bytes = b"") -> None:
        self.send(AskProgram([sys.executable, "-c", program], {}, "/", seconds, said))

    def say(self, said: bytes, *, last: bool = False) -> None:
        self.send(TellProgram(last, said))

    def await_said(self, text: bytes) -> None:
        """Return once the program has said this and nothing else."""
        said = b""
        while said != text:
            said += self.next(ProgramSaid).data
            assert text.startswith(said)

    def answer(self) -> tuple[bytes, dict[str, Any], bytes]:
        """All that the program says, how it ended, and its last words."""
        said = b""
        while isinstance(answer := self.next(ProgramSaid, ProgramEnded), ProgramSaid):
            said += answer.data
        told = dict(vars(answer))
        return said, told, told.pop("last_words")


@pytest.fixture
def asked(mark: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setenv(MARK, mark)
    asked = Asked()
    yield asked
    asked.connection.close()


def test_what_a_program_says_and_how_it_ends_is_told(asked: Asked) -> None:
    asked.ask("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")

    assert asked.answer() == (b"out\n", {"code": 3, "signal": None, "in_time": True}, b"err\n")


def test_a_program_can_be_talked_to_until_the_last_word(asked: Asked) -> None:
    asked.ask("import sys\nfor line in sys.stdin: print('heard', line, end='', flush=True)", said=b"one\n")
    asked.await_said(b"heard one\n")
    asked.say(b"two\n")
    asked.await_said(b"heard two\n")
    asked.say(b"three\n", last=True)

    assert asked.answer() == (b"heard three\n", {"code": 0, "signal": None, "in_time": True}, b"")


def test_megabytes_arrive_whole(asked: Asked) -> None:
    asked.ask("import sys; print(len(sys.stdin.buffer.read()))", said=bytes(5_000_000))
    asked.say(b"end", last=True)

    assert asked.answer()[0] == b"5000003\n"


def test_a_program_that_does_not_listen_holds_up_nothing(asked: Asked) -> None:
    asked.ask("import sys; sys.stdin.close(); print('done')", said=bytes(5_000_000))

    assert asked.answer()[0] == b"done\n"


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_program_that_never_ends_is_ended_when_its_time_is_over(asked: Asked, stubborn: bool) -> None:
    asked.ask((DEAF if stubborn else "import time\n") + "while True: time.sleep(1)", seconds=SHORT)

    said, told, _ = asked.answer()
    assert told == {"code": None, "signal": 9 if stubborn and said else 15, "in_time": False}


@pytest.mark.parametrize(("stream", "most"), [("stdout", MOST), ("stderr", LAST_WORDS)])
def test_a_flood_is_cut_off(asked: Asked, stream: str, most: int) -> None:
    asked.ask(f"import sys\nwhile True: sys.{stream}.write('x' * 100_000)", seconds=10.0)

    said, told, last_words = asked.answer()
    assert told["in_time"]
    assert told["code"] != 0
    assert len(said if stream == "stdout" else last_words) == most


def test_a_daemon_that_holds_the_pipes_is_not_waited_for_and_does_not_stay(asked: Asked, mark: str) -> None:
    child = "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(1000)\n"
    asked.ask(f"import os, time\nprint('parent', flush=True)\n{child}")

    assert asked.answer()[:2] == (b"parent\n", {"code": 0, "signal": None, "in_time": True})
    asked.connection.close()
    assert marked_processes(mark) == []


def test_what_a_program_leaves_is_ended_with_the_agent_though_it_is_deaf(asked: Asked, mark: str) -> None:
    asked.ask(DEAF + "while True: time.sleep(1)")
    asked.await_said(b"deaf\n")
    asked.connection.begin_to_close()

    await_true(lambda: not marked_processes(mark), "the end of all processes")


def test_what_cannot_be_started_is_told(asked: Asked) -> None:
    asked.send(AskProgram(["/nowhere/python"], {}, "/", LONG, b""))
    assert asked.next(ProgramNotRun).reason == "cannot run /nowhere/python: No such file or directory"
    asked.send(AskProgram([sys.executable], {}, "/nowhere", LONG, b""))
    reason = "cannot enter the working directory /nowhere: No such file or directory"
    assert asked.next(ProgramNotRun).reason == reason


def test_the_speed_to_a_port_that_is_held_is_measured(asked: Asked) -> None:
    asked.send(Reserve([asked.task.slug], 0, 0, "word"))
    port = asked.held_port()
    asked.send(CountBytes())
    assert asked.next(CountingBytes).reason == ""
    asked.send(MeasureSpeed("127.0.0.1", port, 1_000_000, 5.0))

    measured = asked.next(SpeedMeasured)
    assert (measured.reason, measured.bytes) == ("", 1_000_000)
    assert measured.rate > 0
    assert 0 < measured.round_trip < 1


def test_an_address_at_which_nobody_counts_is_told(asked: Asked) -> None:
    asked.send(Reserve([asked.task.slug], 0, 0, ""))
    port = asked.held_port()
    asked.send(MeasureSpeed("127.0.0.1", port, 1_000_000, 5.0))
    assert asked.next(SpeedMeasured).reason == "Connection refused"
    asked.send(MeasureSpeed("no.such.name.invalid", port, 1_000_000, 5.0))
    assert asked.next(SpeedMeasured).reason
