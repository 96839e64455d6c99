"""Shows one progress bar where several workers draw the same one. Pure."""

from __future__ import annotations

import re

from launcher.cluster.spec import Task, in_order
from launcher.console.worker_text import BAR_INTERVAL

MOST_SHAPES = 100
"""Distinct bars that are remembered."""
_NUMBER_OR_DRAWING = rb"\x1b\[[0-9;]*m|\d[\d.:e+-]*(?:s|ms|us)?|[^A-Za-z]"
"""What changes in a bar as it advances. The rest is its shape."""


class RunningBars:
    """Remembers which worker's bar is shown: of all that draw a bar of one shape, the first in the cluster."""

    def __init__(self) -> None:
        self._shown_by: dict[bytes, tuple[Task, float]] = {}

    def is_news(self, task: Task, bar: bytes, now: float) -> bool:
        """Whether to show a worker's bar: no earlier worker is drawing one of the same shape."""
        shape = re.sub(_NUMBER_OR_DRAWING, b"", bar)
        other, until = self._shown_by.get(shape, (task, now))
        if now < until and in_order((task, other))[0] != task:
            return False
        if len(self._shown_by) >= MOST_SHAPES:
            self._shown_by.clear()
        self._shown_by[shape] = task, now + 2 * BAR_INTERVAL
        return True
