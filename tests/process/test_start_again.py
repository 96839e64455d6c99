"""One task is started again while its host runs on: a real agent, and the launcher's end of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest
from support.launching import MARK, PATIENCE, await_true

from launcher.cluster.defaults import LEASE
from launcher.cluster.plan import TaskPlan
from launcher.cluster.spec import Task
from launcher.hosts import events
from launcher.hosts.access import Access
from launcher.hosts.all_hosts import start_command
from launcher.hosts.connection import Connection
from launcher.hosts.inbox import Inbox, receive
from launcher.hosts.transport import agent_argv
from launcher.on_host.agent.messages import Hello, Stop

W0 = Task("worker", 0)
LEAVES_A_CHILD = "sleep 1000 & echo $!; kill -9 $$"


class Host:
    """Starts `sh -c SCRIPT` as worker 0, and keeps what it hears of that."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._inbox: Inbox = SimpleQueue()
        access = Access("localhost", agent_argv("localhost"))
        self.connection = Connection("localhost", [W0], access, self._inbox, threading.Semaphore())
        self.connection.send(Hello(LEASE, []))
        self.pieces: list[tuple[int, bytes]] = []

    def start(self, script: str, until: type[events.Event]) -> events.Event:  # type: ignore[valid-type]
        """Start it and return the first event of that type; pieces of its log are kept."""
        place = str(self._directory)
        env = {"LAUNCH_OUTPUT_DIR": place}
        argv = ("sh", "-c", script)
        plan = TaskPlan(W0, "localhost", "127.0.0.1:1", argv, place, env, f"{place}/log", f"{place}/progress")
        self.connection.send(start_command([plan], hold=True, admitted=""))
        return self.await_event(until)

    def await_event(self, kind: type[events.Event]) -> events.Event:  # type: ignore[valid-type]
        while not isinstance(event := receive(self._inbox, PATIENCE), kind):
            assert event is not None
            if isinstance(event, events.LogChunk):
                self.pieces.append((event.offset, event.data))
        return event

    @property
    def log(self) -> bytes:
        """What came of it, put together by the offsets that were told."""
        whole = bytearray()
        for offset, data in self.pieces:
            assert offset == len(whole)
            whole += data
        return bytes(whole)


@pytest.fixture
def host(tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setenv(MARK, mark)
    host = Host(tmp_path)
    yield host
    host.connection.close()


def ended(host: Host, script: str) -> events.TaskExited:
    event = host.start(script, events.TaskExited)
    assert isinstance(event, events.TaskExited)
    return event


def test_the_log_of_a_task_that_is_started_again_goes_on(host: Host) -> None:
    ended(host, "echo first; exit 3")
    host.await_event(events.LogEnded)
    second = ended(host, "echo second; exit 4")
    host.await_event(events.LogEnded)

    assert host.log == b"first\nsecond\n"
    assert (second.exit_code, second.tail) == (4, b"second\n")


def test_what_a_dead_worker_left_behind_ends_when_it_is_started_again(host: Host) -> None:
    first = ended(host, LEAVES_A_CHILD)
    child = psutil.Process(int(first.tail))
    ended(host, "echo second")
    host.await_event(events.LogEnded)

    assert host.log == first.tail + b"second\n"
    await_true(lambda: not child.is_running(), "the end of the child")


def test_a_task_that_cannot_be_started_again_leaves_its_log_whole(host: Host) -> None:
    ended(host, LEAVES_A_CHILD)
    host.start("x" * 3_000_000, events.TaskStartFailed)  # longer than a command line may be
    host.connection.send(Stop(9, 0))
    host.await_event(events.LogEnded)

    assert host.log.strip().isdigit()


def test_the_log_that_a_worker_has_truncated_goes_on_too(host: Host, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    host.start(f"echo first; until [ -e {seen} ]; do :; done; : >{tmp_path}/log; exit 3", events.TaskStarted)
    piece = host.await_event(events.LogChunk)
    assert isinstance(piece, events.LogChunk)
    host.pieces.append((piece.offset, piece.data))
    seen.touch()
    host.await_event(events.LogEnded)
    ended(host, "echo second; exit 4")
    host.await_event(events.LogEnded)

    assert host.log.startswith(b"first\n")
    assert host.log.endswith(b"second\n")
