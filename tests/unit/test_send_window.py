"""How much of files may be on its way at a time."""

from __future__ import annotations

import pytest

from launcher.on_host.agent.window import CAREFUL, LEAST, MOST, SendWindow


def test_a_window_closes_when_it_is_full_and_opens_with_an_answer() -> None:
    window = SendWindow(2 * LEAST)
    window.sent(LEAST, 0)
    assert window.is_open
    window.sent(LEAST, 0)
    assert not window.is_open
    window.oldest_arrived(0)
    assert window.is_open
    assert not window.is_empty
    window.oldest_arrived(0)
    assert window.is_empty


def filled(window: SendWindow, now: float) -> int:
    """Send what the window lets through at this moment; return how much that is."""
    sent = 0
    while window.is_open:
        window.sent(window.piece, now)
        sent += window.piece
    return sent


def in_flight(link: float, rate: float, rounds: int) -> int:
    """What a window lets be under way in the end, on a link of so many seconds there and back, and bytes a second."""
    window, now, size = SendWindow(), 0.0, 0
    for _ in range(rounds):
        piece, size = window.piece, filled(window, now)
        for arrived in range(piece, size + 1, piece):
            window.arrived(piece, now + link + arrived / rate)
        now += link + size / rate
    return size


def test_the_window_grows_on_a_long_fat_link() -> None:
    assert in_flight(link=0.1, rate=1e9, rounds=40) == MOST


def test_the_window_grows_although_the_link_itself_is_long() -> None:
    assert in_flight(link=0.6, rate=1e9, rounds=40) == MOST


@pytest.mark.parametrize("rate", [1e5, 1e6, 3e6])
def test_nothing_waits_long_behind_files_on_a_slow_link(rate: float) -> None:
    """Half a second at most, where that is more than the least."""
    assert all(in_flight(0.02, rate, rounds) <= max(2 * LEAST, rate / 2) for rounds in range(10, 50))


def test_a_window_shrinks_with_late_answers_down_to_a_limit() -> None:
    window = SendWindow(CAREFUL)
    for now in range(100):
        size = filled(window, now)
        while not window.is_empty:
            window.oldest_arrived(now + (1 if now else 0))

    assert size == LEAST
