"""Renews the leases of agents, reports hosts that do not answer, and gives up those whose lease is over."""

from __future__ import annotations

import time
from collections.abc import Iterable

from launcher.hosts import events
from launcher.hosts.connection import Connection

BEATS_PER_LEASE = 5
MENTIONED_AFTER = 5.0
"""Seconds of silence after which a host is reported; half the lease if that is less."""
MISSED_BEATS = 1.5
"""Heartbeats that must stay unanswered for that: with a long lease they are many seconds apart."""


def change(
    host: str, silence: float, lease: float, was_silent: bool, late: float = 0.0
) -> events.HostSilent | events.HostAnswersAgain | None:
    """What to report about a host that was last heard `silence` seconds ago; None if nothing has changed.

    Args:
        host: its name.
        silence: seconds.
        lease: seconds.
        was_silent: whether it was reported silent.
        late: by how many seconds the launcher's next heartbeat is late. That long, the host had nothing to answer.
    """
    is_silent = silence - late > max(min(MENTIONED_AFTER, lease / 2), MISSED_BEATS * lease / BEATS_PER_LEASE)
    if is_silent and not was_silent:
        return events.HostSilent(host, silence, lease)
    return events.HostAnswersAgain(host) if was_silent and not is_silent else None


class Heartbeat:
    """Call `keep` often; it sends a heartbeat when one is due."""

    def __init__(self, lease: float) -> None:
        """`lease`: seconds."""
        self._lease = lease
        self._next = 0.0
        self._silent: set[str] = set()
        """Hosts that were reported silent."""
        self.interval = lease / BEATS_PER_LEASE
        """Seconds between two heartbeats: nobody may wait longer than that for events."""

    def keep(self, connections: Iterable[Connection]) -> None:
        """If a heartbeat is due, send it, and check who has not answered the last ones."""
        late = time.monotonic() - self._next
        if late < 0:
            return
        self._next += late + self.interval
        for connection in connections:
            # If this process itself was stopped or starved, the agents' answers may still be unread: do not judge now.
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
