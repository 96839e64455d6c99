"""Files on their way to an agent: so much at a time as the link carries without making anything else wait."""

from __future__ import annotations

import time
from collections.abc import Callable

from launcher.on_host.agent.messages import Command
from launcher.on_host.agent.window import CAREFUL, SendWindow

PIECE = 1 << 17
"""Bytes of a file in one frame, at most."""
FRAME_COST = 512
"""Bytes that a frame counts beside its content, so that many empty files are held back, too."""


class Outgoing:
    """Frames with pieces of files, each of which the agent answers once it has dealt with it."""

    def __init__(self, ask: Callable[[Command], None], await_answer: Callable[[], object]) -> None:
        """`await_answer`: returns once the oldest frame that is on its way has been answered, or raises."""
        self._ask = ask
        self._await_answer = await_answer
        self._window = SendWindow(CAREFUL)

    def send(self, command: Command, size: int) -> None:
        """Send what has `size` bytes of a file in it, as soon as there is room on the link."""
        while not self._window.is_open:
            self._answered()
        self._ask(command)
        self._window.sent(size + FRAME_COST, time.monotonic())

    def drain(self) -> None:
        while not self._window.is_empty:
            self._answered()

    def _answered(self) -> None:
        self._await_answer()
        self._window.oldest_arrived(time.monotonic())
