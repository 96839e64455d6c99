"""Waiting while agents run: whoever waits for anything renews their leases meanwhile, and takes what they tell."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from launcher.hosts import events
from launcher.hosts.inbox import Inbox, receive

Observer = Callable[[events.Event], None]


class Leased(Protocol):
    """Agents that end everything if they hear nothing for too long."""

    def beat(self) -> None:
        """Renew every lease, if it is time."""

    @property
    def beat_interval(self) -> float:
        """Seconds between two beats."""


class StopRequestedError(Exception):
    """The user asked the launcher to end while it was waiting for the hosts."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal


def never() -> float:
    return math.inf


def attend(
    hosts: Leased,
    inbox: Inbox,
    over: Callable[[], bool],
    wake: Callable[[], float] = never,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[events.Event | None]:
    """Stay with the hosts until something is over; yield each event, and None where there was nothing for a while.

    `wake`: when, by the clock, the caller has something to do even if nothing happens.
    """
    while not over():
        hosts.beat()
        yield receive(inbox, min(wake() - clock(), hosts.beat_interval))


def attend_until(
    hosts: Leased, inbox: Inbox, over: Callable[[], bool], until: Callable[[], float], observe: Observer
) -> Iterator[events.Event]:
    """Stay with them until something is over, or for a time; yield each event, which `observe` has seen.

    Raises:
        StopRequestedError: the user would not wait.
    """
    for event in attend(hosts, inbox, lambda: over() or time.monotonic() >= until(), until):
        if event is not None:
            observe(event)
            raise_if_interrupted(event)
            yield event


def raise_if_interrupted(event: events.Event | None) -> None:
    """Raises: StopRequestedError."""
    if isinstance(event, events.Interrupted):
        raise StopRequestedError(event.signal)
