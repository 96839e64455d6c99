"""The one queue that the main thread reads: events of all hosts, and signals to the launcher."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import NamedTuple

from launcher.hosts import events

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Backlog:
    """How many bytes of one host's events are in the inbox; each host has its own. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.size = 0

    def grow(self, size: int) -> None:
        """Count bytes that were put into the inbox; a negative number for those that were read from it."""
        with self._lock:
            self.size += size


class QueuedEvent(NamedTuple):
    """An event that counts in its host's backlog until it is received."""

    event: events.Event
    size: int
    backlog: Backlog


Inbox = SimpleQueue[events.Event | QueuedEvent]


def receive(inbox: Inbox, timeout: float) -> events.Event | None:
    """The next event, or None after `timeout` seconds."""
    try:
        queued = inbox.get(timeout=max(0.0, timeout))
    except Empty:
        return None
    if not isinstance(queued, QueuedEvent):
        return queued
    queued.backlog.grow(-queued.size)
    return queued.event


@contextlib.contextmanager
def signals_into(inbox: Inbox) -> Iterator[None]:
    """Within this block, SIGINT, SIGTERM and SIGHUP become events, and Ctrl-Z does nothing.

    A suspended launcher would send no heartbeat, so its agents would end the workers when the lease is over.
    """

    def interrupt(number: int, _frame: object) -> None:
        inbox.put(events.Interrupted(number))

    # Under nohup, SIGHUP stays ignored. SIGINT does not: a shell that starts a job with `&` ignores it for the job,
    # and a later `kill -INT` must still stop the run.
    handled = [each for each in SIGNALS if each != signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in handled}
    before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
