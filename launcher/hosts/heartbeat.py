"""Renews the leases of agents, tells of hosts that do not answer, and gives up on those whose lease is over."""

from __future__ import annotations

import time
from collections.abc import Iterable

from launcher.hosts import events
from launcher.hosts.connection import Connection

BEATS_PER_LEASE = 5
MENTIONED_AFTER = 5.0
"""Seconds of silence after which a host is in trouble; half the lease where that is less."""
MISSED_BEATS = 1.5
"""So many beats must have stayed unanswered for that: with a long lease they are many seconds apart."""


def change(
    host: str, silence: float, lease: float, was_silent: bool, late: float = 0.0
) -> events.HostSilent | events.HostAnswersAgain | None:
    """What there is to tell of a host that was heard `silence` seconds ago, after it was told to be silent or not.

    `late`: by how many seconds the next beat is later than usual. For so long the host was not asked.
    """
    is_silent = silence - late > max(min(MENTIONED_AFTER, lease / 2), MISSED_BEATS * lease / BEATS_PER_LEASE)
    if is_silent and not was_silent:
        return events.HostSilent(host, silence, lease)
    return events.HostAnswersAgain(host) if was_silent and not is_silent else None


class Heartbeat:
    """Call `keep` often; it knows when it is time."""

    def __init__(self, lease: float) -> None:
        """`lease`: seconds."""
        self._lease = lease
        self._next = 0.0
        self._silent: set[str] = set()
        """Hosts that were told to be silent."""
        self.interval = lease / BEATS_PER_LEASE
        """Seconds between two beats: who waits for events may wait no longer."""

    def keep(self, connections: Iterable[Connection]) -> None:
        """Beat if it is time, and look who has not answered."""
        late = time.monotonic() - self._next
        if late < 0:
            return
        self._next += late + self.interval
        for connection in connections:
            # Where it is this process that was away (stopped, starved), what the agents said is still to be read.
            if late < self.interval:
                self._look_at(connection, late)
            connection.beat()

    def _look_at(self, connection: Connection, late: float) -> None:
        silence, name = connection.silence, connection.name
        if connection.lost or silence > self._lease:
            self._silent.discard(name)
            if not connection.lost:
                reason = f"no sign of life for {self._lease:g} s (timeouts.lease)"
                connection.give_up(f"{reason}: the host is down or frozen, or the link is cut")
            return
        told = change(name, silence, self._lease, name in self._silent, late)
        if told is not None:
            self._silent ^= {name}
            connection.post(told)
