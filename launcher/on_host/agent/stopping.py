"""Stops everything that the run has started on this host: a signal, then SIGKILL until nothing is left."""

from __future__ import annotations

import math
import signal
import time

from launcher.on_host.agent.framing import MOST_LISTED
from launcher.on_host.agent.jobs import Job
from launcher.on_host.agent.messages import Empty, Survivors
from launcher.on_host.agent.processes import KILL_AGAIN, UNKILLABLE, send_signal, signal_descendants

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable

    from launcher.on_host.agent.messages import Event


class Stopping(Job):
    """Stops the run, from the first signal until nothing is left."""

    def __init__(self, tell: Callable[[Event], None], nothing_left: Callable[[], None]) -> None:
        """`nothing_left`: called once no process is left, or what is left cannot be killed."""
        self._tell = tell
        self._nothing_left = nothing_left
        self._kill_at = math.inf
        self._give_up_at = math.inf

    @property
    def is_under_way(self) -> bool:
        return self._kill_at < math.inf

    def begin(self, number: int, grace: float) -> None:
        """Signal everything below the agent (0: nothing); SIGKILL follows after `grace` seconds, or when it was due."""
        if number:
            send_signal(signal_descendants(number), signal.SIGCONT)  # a suspended process would not get the signal
        self._kill_at = min(self._kill_at, time.monotonic() + grace)

    @property
    def due(self) -> float:
        return self._kill_at

    def step(self, now: float) -> None:
        if now < self._kill_at:
            return
        self._kill_at = now + KILL_AGAIN
        self._give_up_at = min(self._give_up_at, now + UNKILLABLE)
        left = signal_descendants(signal.SIGKILL)
        if now > self._give_up_at:
            self._tell(Survivors(left[:MOST_LISTED]))
            self.finish()

    def finish(self) -> None:
        """Report that nothing is left."""
        self._kill_at = self._give_up_at = math.inf
        self._tell(Empty())
        self._nothing_left()
