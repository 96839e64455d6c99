"""Watches the steps that workers report: warns when none comes for long, and knows when that is a stall. Pure.

All workers of a gang make the same steps, so when they stop, the reports do not tell which of them holds up the others.
"""

from __future__ import annotations

from launcher.hosts.events import ProgressMade

PATIENCE = 60.0
"""Seconds without a report before the first warning."""
SLOW_AGAIN = 2.0
"""How many times the longest wait that ended well must pass before a warning."""


class StepWatch:
    """The reports of one attempt. Until the first one there is nothing to wait for: many programs report nothing."""

    def __init__(self, stall: float | None) -> None:
        """`stall`: seconds without a report that end the attempt (`timeouts.stall`); None: none do."""
        self._stall = stall
        self._last_at: float | None = None
        self._last_step = ""
        self._longest = 0.0
        """Seconds between two reports, so far."""
        self._warn_after = PATIENCE
        """Seconds since the last report; it doubles with each warning."""
        self._warned = False

    @property
    def stalls_at(self) -> float | None:
        """When the attempt has stalled."""
        return None if self._last_at is None or self._stall is None else self._last_at + self._stall

    @property
    def deadline(self) -> float | None:
        """When there is something to do at the latest, a warning or the end."""
        if self._last_at is None:
            return None
        return min(self._last_at + self._warn_after, self.stalls_at or float("inf"))

    @property
    def last_step(self) -> str:
        """For the user: the newest report and who made it, as `step 812 (worker 0)`; empty: it has no number."""
        return self._last_step

    def note(self, event: ProgressMade, now: float) -> str | None:
        """Note a report, of a step or of a validation under way; return what the user is told, if anything."""
        silence = 0.0 if self._last_at is None else now - self._last_at
        warned, self._warned = self._warned, False
        self._longest = max(self._longest, silence)
        self._warn_after = max(PATIENCE, SLOW_AGAIN * self._longest)
        self._last_at, self._last_step = now, _step_of(event)
        step = f": {self._last_step}" if self._last_step else ""
        return f"steps go on after {silence:.0f} s{step}" if warned else None

    def warning(self, now: float) -> str | None:
        """What the user is told of a silence, when it is time."""
        if self._last_at is None or now < self._last_at + self._warn_after:
            return None
        self._warn_after *= 2
        self._warned = True
        end = (
            f"{self._stall:g} s without one end the run (timeouts.stall)"
            if self._stall
            else "--stall 10m (timeouts.stall in the cluster file) ends a run that hangs, Ctrl-C ends this one"
        )
        last = f": the last was {self._last_step}" if self._last_step else ""
        return (
            f"no worker has reported a step for {now - self._last_at:.0f} s{last}. "
            f"They may evaluate, save or wait for data, or hang; {end}"
        )


def _step_of(event: ProgressMade) -> str:
    return "" if event.step is None else f"step {event.step} ({event.task})"
