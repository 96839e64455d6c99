"""Turns one worker's raw output into the lines that a person wants to see. Pure: the time is an argument."""

from __future__ import annotations

from launcher.console.interruption import InterruptionReader
from launcher.console.lines import LineSplitter
from launcher.console.startup_noise import NoiseReader
from launcher.console.terminal import DIM

BAR_INTERVAL = 5.0
"""Seconds between two looks at a progress bar that goes on. Its last state is shown when its line ends."""


class WorkerText:
    """The output of one worker."""

    def __init__(self, show_noise: bool = False, dim_noise: bool = False) -> None:
        """`show_noise`: keep TensorFlow's start-up notices; `dim_noise`: and show them dimmed."""
        self._show_noise = show_noise
        self._dim_noise = dim_noise
        self._splitter = LineSplitter()
        self._noise = NoiseReader()
        self._interruption: InterruptionReader | None = None
        self._bar_due: float | None = None
        self.left_out_noise = False
        """Start-up notices were hidden."""

    def interrupt(self) -> None:
        """From now on, hide what the worker prints only because of the user's interrupt."""
        self._interruption = self._interruption or InterruptionReader()

    def feed(self, data: bytes) -> bytes:
        """Add the next bytes of the log; return the whole lines that can be shown now."""
        lines = self._splitter.feed(data)
        if lines:
            self._bar_due = None
        return self._visible(lines if self._interruption is None else self._interruption.feed(lines))

    def flush(self) -> bytes:
        """The log has ended: return what is left. A last line without a newline gets one."""
        lines = self._splitter.flush()
        if self._interruption is not None:
            lines = self._interruption.feed(lines) + self._interruption.flush()
        return self._visible(lines)

    def due_bar(self, now: float) -> bytes:
        """The state of a progress bar that has been running for a while, as a line; empty if none is due."""
        bar = self._splitter.bar
        if not bar:
            return b""
        if self._bar_due is None or now >= self._bar_due:
            first, self._bar_due = self._bar_due is None, now + BAR_INTERVAL
            return b"" if first else bar + b"\n"
        return b""

    def _visible(self, lines: bytes) -> bytes:
        matters = not self._show_noise or self._dim_noise
        if not matters or not lines or not self._noise.may_hold_noise(lines):
            return lines
        return b"".join(self._shown(line, noise) for line, noise in self._noise.marked(lines))

    def _shown(self, line: bytes, noise: bool) -> bytes:
        if not noise:
            return line + b"\n"
        if self._show_noise:
            return DIM + line + b"\n"
        self.left_out_noise = True
        return b""
