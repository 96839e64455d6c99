"""Asking a real agent: programs that answer, and programs that do everything but that."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import TypeVar

import pytest
from support.launching import MARK, PATIENCE, await_true, marked_processes

from launcher.cluster.cluster import Host
from launcher.cluster.spec import Task
from launcher.hosts import events
from launcher.hosts.access import access
from launcher.hosts.connection import Connection
from launcher.hosts.inbox import Inbox, receive
from launcher.on_host.agent.messages import (
    AskProgram,
    Event,
    Hello,
    ProgramEnded,
    ProgramNotRun,
    ProgramSaid,
    TellProgram,
)
from launcher.on_host.agent.programs import LAST_WORDS, MOST

LEASE = 15.0
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True)\n"
Answer = TypeVar("Answer", bound=Event)


class Asked:
    """A host that is asked, and what it says."""

    def __init__(self) -> None:
        self.inbox: Inbox = SimpleQueue()
        host = Host("localhost", (Task("worker", 0),))
        self.connection = Connection(host.name, host.tasks, access(host, LEASE), self.inbox, threading.Semaphore())
        self.connection.send(Hello(LEASE, []))

    def next(self, *kinds: type[Answer]) -> Answer:
        """The next message, which is one of these."""
        deadline = time.monotonic() + PATIENCE
        while (event := receive(self.inbox, deadline - time.monotonic())) is not None:
            assert not isinstance(event, events.HostLost), event
            if isinstance(event, events.Answer):
                assert isinstance(event.message, kinds), event
                return event.message
        raise AssertionError(f"none of {kinds}")

    def ask(self, program: str, said: bytes = b"", name: str = "x") -> None:
        self.connection.send(AskProgram(name, [sys.executable, "-c", program], {}, "/", said))

    def tell(self, said: bytes, last: bool = False) -> None:
        self.connection.send(TellProgram("x", last, said))

    def await_said(self, text: bytes) -> None:
        """Return once the program has said this and nothing else."""
        said = b""
        while said != text:
            said += self.next(ProgramSaid).data
            assert text.startswith(said)

    def answer(self) -> tuple[bytes, ProgramEnded]:
        """All that the program says, and how it ended."""
        said = b""
        while not isinstance(message := self.next(ProgramSaid, ProgramEnded), ProgramEnded):
            said += message.data
        return said, message


@pytest.fixture
def asked(mark: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setenv(MARK, mark)
    asked = Asked()
    yield asked
    asked.connection.close()


def test_what_a_program_says_and_how_it_ends_is_told(asked: Asked) -> None:
    asked.ask("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")

    assert asked.answer() == (b"out\n", ProgramEnded("x", 3, None, b"err\n"))


def test_a_program_can_be_talked_to_until_the_last_word(asked: Asked) -> None:
    asked.ask("import sys\nfor line in sys.stdin: print('heard', line, end='', flush=True)", said=b"one\n")
    asked.await_said(b"heard one\n")
    asked.tell(b"two\n")
    asked.await_said(b"heard two\n")
    asked.tell(b"three\n", last=True)

    assert asked.answer() == (b"heard three\n", ProgramEnded("x", 0, None, b""))


def test_several_programs_are_told_apart(asked: Asked) -> None:
    asked.ask("import sys; print(sys.stdin.read())", said=b"here")
    asked.ask("print('beside it')", name="other")

    assert asked.answer() == (b"beside it\n", ProgramEnded("other", 0, None, b""))
    asked.tell(b"", last=True)
    assert asked.answer() == (b"here\n", ProgramEnded("x", 0, None, b""))


def test_megabytes_arrive_whole(asked: Asked) -> None:
    asked.ask("import sys; print(len(sys.stdin.buffer.read()))", said=bytes(5_000_000))
    asked.tell(b"end", last=True)

    assert asked.answer()[0] == b"5000003\n"


def test_a_program_that_does_not_listen_holds_up_nothing(asked: Asked) -> None:
    asked.ask("import sys; sys.stdin.close(); print('done')", said=bytes(5_000_000))

    assert asked.answer()[0] == b"done\n"


@pytest.mark.parametrize(("stream", "most"), [("stdout", MOST), ("stderr", LAST_WORDS)])
def test_a_flood_is_cut_off(asked: Asked, stream: str, most: int) -> None:
    asked.ask(f"import sys\nwhile True: sys.{stream}.write('x' * 100_000)")

    said, ended = asked.answer()
    assert ended.code != 0
    assert len(said if stream == "stdout" else ended.last_words) == most


def test_a_daemon_that_holds_the_pipes_is_not_waited_for_and_does_not_stay(asked: Asked, mark: str) -> None:
    child = "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(1000)\n"
    asked.ask(f"import os, time\nprint('parent', flush=True)\n{child}")

    assert asked.answer() == (b"parent\n", ProgramEnded("x", 0, None, b""))
    asked.connection.close()
    assert marked_processes(mark) == []


def test_what_a_program_leaves_is_ended_with_the_agent_though_it_is_deaf(asked: Asked, mark: str) -> None:
    asked.ask(DEAF + "while True: time.sleep(1)")
    asked.await_said(b"deaf\n")
    asked.connection.begin_to_close()

    await_true(lambda: not marked_processes(mark), "the end of all processes")


@pytest.mark.parametrize(
    ("argv", "directory", "reason"),
    [
        ("/nowhere/python", "/", "cannot run /nowhere/python: No such file or directory"),
        (sys.executable, "/nowhere", "cannot enter the working directory /nowhere: No such file or directory"),
    ],
)
def test_what_cannot_be_started_is_told(asked: Asked, argv: str, directory: str, reason: str) -> None:
    asked.connection.send(AskProgram("x", [argv], {}, directory, b""))

    assert asked.next(ProgramNotRun) == ProgramNotRun("x", reason)
