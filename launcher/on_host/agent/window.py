"""How much of files may be on its way between launcher and agent. Pure: the time is an argument. Both ends use it.

All else that the end that sends has to tell waits behind files: a sign of life, a worker's end, a line of its log.
"""

from __future__ import annotations

LEAST, FIRST, MOST = 1 << 16, 1 << 20, 1 << 24
"""Bytes. 16 MiB keep a link of 1 Gbit/s full over 100 ms there and back."""
CAREFUL = 1 << 17
"""The first of a launcher: an agent whose launcher seems silent for a whole lease ends all workers."""
PIECE = 1 << 18
"""Bytes of a file read, hashed and sent at a time, at most: about a millisecond's work."""
PIECES = 4
"""In a window, at least."""
SOON, LATE = 0.1, 0.25
"""Seconds that a piece may wait on its way: above the first the window stops to grow, above the second it shrinks."""


class SendWindow:
    """Many bytes may be on their way where they arrive soon, few where they queue."""

    def __init__(self, size: int = FIRST) -> None:
        self._size = size
        self._sent = self._arrived = 0
        self._under_way: list[tuple[int, float]] = []
        """How much had been sent once a piece was, and when that was."""
        self._quickest = float("inf")
        """What an empty link takes there and back: only what a piece takes beyond that has it waited."""
        self._shrunk_at = 0

    @property
    def is_open(self) -> bool:
        return self._sent - self._arrived < self._size

    @property
    def is_empty(self) -> bool:
        return self._sent == self._arrived

    @property
    def piece(self) -> int:
        """How many bytes go at a time."""
        return min(PIECE, self._size // PIECES)

    def sent(self, count: int, now: float) -> None:
        self._sent += count
        self._under_way.append((self._sent, now))

    def arrived(self, count: int, now: float) -> None:
        self._arrived += count
        took = None
        while self._under_way and self._under_way[0][0] <= self._arrived:
            took = now - self._under_way.pop(0)[1]
        if took is not None:
            self._quickest = min(self._quickest, took)
            self._fit(took - self._quickest, count)

    def oldest_arrived(self, now: float) -> None:
        """The other side has dealt with one piece more."""
        if self._under_way:
            self.arrived(self._under_way[0][0] - self._arrived, now)

    def _fit(self, waited: float, count: int) -> None:
        if waited < SOON:
            self._size = min(MOST, self._size + count)
        elif waited > LATE and self._arrived > self._shrunk_at:
            self._size = max(LEAST, self._size // 2)
            self._shrunk_at = self._sent  # what is under way now says nothing about the smaller window
