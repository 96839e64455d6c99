"""What is said of files that take a while, on their way here or to a host."""

from __future__ import annotations

import time
from collections.abc import Callable

from launcher.wording import exact_size

REPORT = 10.0
"""Seconds between two lines."""


class UnderWay:
    """Counts the bytes of one transfer, and says now and then how far it is."""

    def __init__(self, what: str, size: int, say: Callable[[str], None]) -> None:
        """`what`: the beginning of the line; `size`: bytes that are to come."""
        self._what = what
        self._size = size
        self._say = say
        self._moved = 0
        self._report_at = time.monotonic() + REPORT

    def moved(self, count: int) -> None:
        self._moved += count
        now = time.monotonic()
        if now >= self._report_at and self._moved < self._size:
            self._report_at = now + REPORT
            self._say(f"{self._what}: {exact_size(self._moved)} of {exact_size(self._size)}")
