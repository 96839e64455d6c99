"""Whoever waits keeps the leases alive, is woken when it is time, and lets the user interrupt."""

from __future__ import annotations

import math
import signal
import time
from queue import SimpleQueue

import pytest

from launcher.hosts import events
from launcher.hosts.attending import StopRequestedError, attend, attend_until, never
from launcher.hosts.inbox import Inbox

STOP = events.Interrupted(signal.SIGINT)
SILENT = events.HostAnswersAgain("gpu-a")


class Agents:
    """What is asked of them."""

    def __init__(self, beat_interval: float = 60.0) -> None:
        self.beat_interval = beat_interval
        self.beats = 0

    def beat(self) -> None:
        self.beats += 1


def inbox_of(*what: events.Event) -> Inbox:
    inbox: Inbox = SimpleQueue()
    for each in what:
        inbox.put(each)
    return inbox


def test_every_event_is_told_and_leases_are_renewed_before_each() -> None:
    agents, seen = Agents(), []
    for event in attend(agents, inbox_of(SILENT, STOP), lambda: len(seen) == 2):
        seen.append((agents.beats, event))  # noqa: PERF401 - the loop asks how many there are

    assert seen == [(1, SILENT), (2, STOP)]


def test_what_is_over_already_is_not_waited_for() -> None:
    agents = Agents()

    assert list(attend(agents, inbox_of(SILENT), lambda: True)) == []
    assert agents.beats == 0


def test_where_nothing_happens_leases_are_renewed_all_the_same() -> None:
    agents = Agents(beat_interval=0.001)

    assert list(attend(agents, inbox_of(), lambda: agents.beats == 3)) == [None, None, None]


def test_who_has_something_to_do_is_woken() -> None:
    waiting = attend(Agents(), inbox_of(), lambda: False, wake=lambda: 100.5, clock=lambda: 100.5)

    assert next(waiting) is None


def test_the_user_is_heard_and_the_event_is_seen_first() -> None:
    seen: list[events.Event] = []
    with pytest.raises(StopRequestedError) as raised:
        list(attend_until(Agents(), inbox_of(SILENT, STOP), lambda: False, lambda: math.inf, seen.append))

    assert raised.value.signal == signal.SIGINT
    assert seen == [SILENT, STOP]


def test_who_asks_on_a_host_for_the_end_of_the_run_is_heard_too() -> None:
    with pytest.raises(StopRequestedError) as raised:
        list(attend_until(Agents(), inbox_of(events.StopRequested("gpu-a")), lambda: False, never, lambda _: None))

    assert (raised.value.signal, raised.value.host) == (signal.SIGTERM, "gpu-a")


def test_a_time_that_is_over_ends_the_wait() -> None:
    now = time.monotonic()

    assert list(attend_until(Agents(), inbox_of(SILENT), lambda: False, lambda: now, lambda _: None)) == []
