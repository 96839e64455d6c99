"""The proof of addresses from this host's side: it dials what the launcher names, and tells what was reached."""

from __future__ import annotations

import math

from launcher.on_host.agent.jobs import Job
from launcher.on_host.agent.messages import DialPorts, DialResults
from launcher.on_host.agent.reach import Dialling

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable

    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.messages import Event


class Dialler(Job):
    """One round after the other."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._dialling: Dialling | None = None

    def handlers(self) -> Handlers:
        return {DialPorts: self._begin}

    def _begin(self, asked: DialPorts) -> None:
        self._dialling = Dialling(asked)
        self._tell_when_done()

    def _tell_when_done(self) -> None:
        if self._dialling is not None and self._dialling.done:
            self._tell(DialResults(self._dialling.results))
            self._dialling = None

    @property
    def polled(self) -> dict[int, int]:
        return self._dialling.polled if self._dialling is not None else {}

    def on_ready(self, fd: int) -> None:
        if self._dialling is not None:
            self._dialling.on_ready(fd)
            self._tell_when_done()

    @property
    def due(self) -> float:
        return self._dialling.until if self._dialling is not None else math.inf

    def step(self, now: float) -> None:
        if self._dialling is not None and now >= self._dialling.until:
            self._dialling.give_up()
            self._tell_when_done()
