"""The agent's end of the connection to the launcher: commands on stdin, events on stdout, and a lease.

The lease is what ends a run whose launcher has vanished without closing the connection: a power cut, a frozen machine
or a cut network sends no end of stream. Whatever the launcher sends renews the lease, its heartbeats at least. When it
is over, the agent stops the workers. The launcher gives up a silent host after the same time, so that the workers of a
lost host do not go on for long beside those of the next attempt.
"""

from __future__ import annotations

import math
import os
import select
import time

from launcher.on_host.agent.facts import facts
from launcher.on_host.agent.fields import checked, encode
from launcher.on_host.agent.framing import MOST_FROM_LAUNCHER, Decoder, UnreadableError
from launcher.on_host.agent.jobs import Job
from launcher.on_host.agent.messages import Alive, Beat, Hello, Ready

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable, Mapping

    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.messages import Command, Event

FIRST_LEASE = 15.0
"""Seconds, until `Hello` says how many."""


class Link(Job):
    """The connection to the launcher, until that is gone."""

    def __init__(
        self, known: Mapping[str, type[Command]], dispatch: Callable[[Command], None], shut_down: Callable[[str], None]
    ) -> None:
        """`dispatch` gets each command; `shut_down` is called with the reason once the launcher is gone."""
        self.is_open = True
        self.backlog = 0
        """Bytes of events that the pipe has not taken yet."""
        self._known = known
        self._dispatch = dispatch
        self._shut_down = shut_down
        self._outgoing: list[memoryview] = []
        self._decoder = Decoder(MOST_FROM_LAUNCHER, MOST_FROM_LAUNCHER)
        self._lease = FIRST_LEASE
        self._lease_until = time.monotonic() + FIRST_LEASE
        for fd in (0, 1):
            os.set_blocking(fd, False)

    def handlers(self) -> Handlers:
        return {Hello: self._greet, Beat: self._answer}

    def _greet(self, asked: Hello) -> None:
        self._lease = asked.lease
        self._lease_until = time.monotonic() + asked.lease
        self.tell(Ready(**facts(asked.variables)))

    def _answer(self, _: Beat) -> None:
        self.tell(Alive())  # `_read` has renewed the lease already

    def tell(self, event: Event) -> None:
        """Queue an event, which is written when the pipe has room: a launcher that does not read blocks nothing."""
        if self.is_open:
            data = encode(event)
            self._outgoing.append(memoryview(data))  # slicing it after a partial write copies nothing
            self.backlog += len(data)

    def flush(self) -> None:
        """Write as much as the pipe takes now."""
        while self._outgoing:
            try:
                written = os.write(1, self._outgoing[0])
            except BlockingIOError:
                return
            except OSError:
                self._shut_down("the launcher has closed its end")
                return
            self.backlog -= written
            if written == len(self._outgoing[0]):
                del self._outgoing[0]
            else:
                self._outgoing[0] = self._outgoing[0][written:]

    @property
    def polled(self) -> dict[int, int]:
        reading = {0: select.POLLIN} if self.is_open else {}
        return {**reading, 1: select.POLLOUT} if self._outgoing else reading

    def on_ready(self, fd: int) -> None:
        if fd == 0:
            self._read()
        else:
            self.flush()

    def _read(self) -> None:
        try:
            data = os.read(0, 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._shut_down("the launcher has gone")
        self._lease_until = time.monotonic() + self._lease
        try:
            for head, body in self._decoder.feed(data):
                self._dispatch(checked(self._known, head, body))
        except UnreadableError as error:
            self._shut_down(f"the launcher sent something unreadable: {error}")

    @property
    def due(self) -> float:
        return self._lease_until if self.is_open else math.inf

    def step(self, now: float) -> None:
        if now > self.due:
            self._shut_down(f"no sign of life from the launcher for {self._lease:g} s (timeouts.lease)")

    def close(self) -> None:
        self.is_open = False
        self._outgoing = []
