"""How much may be on its way to a host. Pure: the time is an argument."""

from __future__ import annotations

from collections import deque

SMALLEST, LARGEST = 1 << 17, 8 << 20
"""Bytes."""
PROMPT = 0.25
"""Seconds. An answer within this time lets more be sent; a later one, less: no beat waits longer behind a file."""


class Window:
    """Grows while answers come promptly, shrinks when they do not."""

    def __init__(self) -> None:
        self.size = SMALLEST
        self._under_way: deque[tuple[int, float]] = deque()
        self._bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether more may be sent."""
        return self._bytes < self.size

    @property
    def is_empty(self) -> bool:
        """Everything that was sent has been answered."""
        return not self._under_way

    def send(self, count: int, now: float) -> None:
        """So many bytes are on their way."""
        self._under_way.append((count, now))
        self._bytes += count

    def answered(self, now: float) -> None:
        """The oldest of what is on its way has been dealt with."""
        count, sent = self._under_way.popleft()
        self._bytes -= count
        if now - sent > PROMPT:
            self.size = max(SMALLEST, self.size // 2)
        else:
            self.size = min(LARGEST, self.size + count)
