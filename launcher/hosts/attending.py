"""The one loop that waits while agents run. It renews their leases and hands out their events."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from launcher.hosts import events
from launcher.hosts.inbox import Inbox, receive

Observer = Callable[[events.Event], None]


class Leased(Protocol):
    """Agents that end everything if they get no heartbeat for the time of their lease."""

    def beat(self) -> None:
        """Renew every lease, if that is due."""

    @property
    def beat_interval(self) -> float:
        """Seconds between two heartbeats."""


class StopRequestedError(Exception):
    """The launcher was told to stop while it was waiting for hosts."""

    def __init__(self, signal: int, host: str = "") -> None:
        """`host`: where that was asked, by `launch leftovers --stop`; empty: here, by a signal."""
        super().__init__(signal)
        self.signal = signal
        self.host = host


def never() -> float:
    return math.inf


def attend(
    hosts: Leased,
    inbox: Inbox,
    over: Callable[[], bool],
    wake: Callable[[], float] = never,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[events.Event | None]:
    """Wait until `over()` while the hosts' leases are renewed; yield each event.

    Yields None when `wake()` or the next heartbeat is due without an event. `wake` tells, on the same clock, when the
    caller has something to do even if nothing happens.
    """
    while not over():
        hosts.beat()
        yield receive(inbox, min(wake() - clock(), hosts.beat_interval))


def attend_until(
    hosts: Leased, inbox: Inbox, over: Callable[[], bool], until: Callable[[], float], observe: Observer
) -> Iterator[events.Event]:
    """The same until `over()` or the time `until()`; yield each event after `observe` has seen it.

    Raises:
        StopRequestedError: a signal came.
    """
    for event in attend(hosts, inbox, lambda: over() or time.monotonic() >= until(), until):
        if event is not None:
            observe(event)
            raise_if_interrupted(event)
            yield event


def raise_if_interrupted(event: events.Event | None) -> None:
    """Raise StopRequestedError for a signal to the launcher, or to the agent of a host (`launch leftovers --stop`)."""
    match event:
        case events.Interrupted(number):
            raise StopRequestedError(number)
        case events.StopRequested(host):
            raise StopRequestedError(signal.SIGTERM, host)
