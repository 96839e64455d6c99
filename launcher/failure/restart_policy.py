"""Whether the gang is started again after a failure. Pure."""

from __future__ import annotations

from typing import NamedTuple

from launcher.failure import Failure, Kind

LONGEST_DELAY = 60.0
"""Seconds."""


class Restart(NamedTuple):
    """Start the next attempt, after `delay` seconds."""

    delay: float


class GiveUp(NamedTuple):
    """Start no further attempt; `reason` says why, for the user."""

    reason: str


class Attempt(NamedTuple):
    """An attempt that failed, and the newest checkpoint step before and after it (None: no checkpoint)."""

    cause: Failure | None
    step_before: int | None = None
    step_after: int | None = None

    @property
    def progressed(self) -> bool:
        """A new checkpoint was written."""
        return self.step_after is not None and (self.step_before is None or self.step_after > self.step_before)


class RestartPolicy(NamedTuple):
    """How often, and how soon: the wait doubles with each restart, up to `LONGEST_DELAY`."""

    max_restarts: int = 0
    backoff: float = 1.0
    """Seconds before the first restart."""

    def decide(self, attempts: tuple[Attempt, ...], *, interrupted: bool = False) -> Restart | GiveUp:
        """Decide after the last of `attempts`, which holds every failed one of the run, oldest first.

        Raises:
            ValueError: there is no attempt.
        """
        if not attempts:
            raise ValueError("a restart is decided after an attempt; there was none")
        reason = self._reason_against(attempts, interrupted)
        if reason is not None:
            return GiveUp(reason)
        exponent = min(len(attempts) - 1, 30)
        return Restart(min(self.backoff * 2**exponent, LONGEST_DELAY))

    def _reason_against(self, attempts: tuple[Attempt, ...], interrupted: bool) -> str | None:
        last = attempts[-1]
        if interrupted:
            return "the run was interrupted"
        if last.cause is not None and last.cause.kind is Kind.BAD_USAGE:
            return "exit code 2 means bad usage, which a restart does not mend"
        if len(attempts) > self.max_restarts:
            return f"max_restarts is {self.max_restarts}"
        if len(attempts) > 1 and not last.progressed and _same(attempts[-2].cause, last.cause):
            return "the same failure came twice, with no new checkpoint in between"
        return None


def _same(before: Failure | None, now: Failure | None) -> bool:
    return now.same_as(before) if before is not None and now is not None else before is now
