"""Whether the gang is started again after a failure. Pure.

Whatever may be otherwise next time is tried again: a restart costs seconds, a run that was given up too early a night.
Not tried again is what cannot change by itself, and what came twice without any progress in between.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from launcher.cluster.cluster import RestartLimits
from launcher.lazy_pattern import lazy_pattern
from launcher.run.failure.failure import Failure, Kind

LONGEST_DELAY = 60.0
"""Seconds."""

_LASTING_CRASHES = (
    (
        r"ModuleNotFoundError\b|ImportError: cannot import name\b",
        "what cannot be imported now cannot be imported in the next attempt, either",
    ),
    (r"(?:SyntaxError|IndentationError|TabError)\b", "a syntax error does not go away by itself"),
)
"""By the last line of a traceback. A file that is not found is left out: another worker, or a disk, may be late."""
_CANNOT_RUN = lazy_pattern(
    r"cannot (?:run|enter) .*: (?:No such file or directory|Not a directory|Permission denied|Exec format error)",
    re.DOTALL,
)
_SHELL_CANNOT_RUN = (126, 127)
"""A shell's exit codes for a program that cannot be executed, and for one that is not there."""
_UNLIKE_CHECKPOINTS = "the workers do not find the same checkpoint"
"""Said by `training/checkpoint.py`. What the launcher can bring to a host is there before an attempt starts."""


class Restart(NamedTuple):
    """Start the next attempt, after `delay` seconds."""

    delay: float


class GiveUp(NamedTuple):
    """Start no further attempt; `reason` says why, for the user."""

    reason: str


class FailedAttempt(NamedTuple):
    """The cause, and the newest checkpoint step before and after it (None: no checkpoint)."""

    cause: Failure | None
    step_before: int | None = None
    step_after: int | None = None
    lone_restarts: int = 0
    """How often a worker was started again alone while it lasted."""

    @property
    def progressed(self) -> bool:
        """A new checkpoint was written."""
        return self.step_after is not None and (self.step_before is None or self.step_after > self.step_before)


def decide(attempts: tuple[FailedAttempt, ...], limits: RestartLimits) -> Restart | GiveUp:
    """Decide after the last of `attempts`, which holds every failed one of the run, oldest first.

    Raises:
        ValueError: there is no attempt.
    """
    if not attempts:
        raise ValueError("a restart is decided after an attempt; there was none")
    last = attempts[-1]
    if last.cause is not None and (lasting := lasting_reason(last.cause)):
        return GiveUp(lasting)
    if restarts_used(attempts) > limits.max_restarts:
        return GiveUp(f"max_restarts is {limits.max_restarts}")
    if len(attempts) > 1 and not last.progressed and _same(attempts[-2].cause, last.cause):
        return GiveUp("the same failure came twice, with no new checkpoint in between")
    return Restart(delay_of(len(attempts), limits.backoff))


def restarts_used(attempts: tuple[FailedAttempt, ...]) -> int:
    """How many restarts there have been once another attempt follows these."""
    return len(attempts) + sum(attempt.lone_restarts for attempt in attempts)


def delay_of(restart: int, backoff: float) -> float:
    """Seconds before a restart, of which the first is number 1: the wait doubles with each."""
    return float(min(backoff * 2 ** min(restart - 1, 30), LONGEST_DELAY))


def lasting_reason(cause: Failure) -> str | None:
    """Why a failure would come again in every attempt; None: nothing says that it would."""
    if cause.kind is Kind.BAD_USAGE:
        return "exit code 2 means bad usage, which a restart does not mend"
    if _cannot_run(cause):
        return "a program that cannot be run cannot be run in the next attempt, either"
    if any(_UNLIKE_CHECKPOINTS in line for line in (cause.summary, *cause.excerpt)):
        return "the workers would not find the same checkpoint in the next attempt, either"
    if cause.kind is not Kind.CRASHED:
        return None
    return next((reason for pattern, reason in _LASTING_CRASHES if re.match(pattern, cause.summary)), None)


def _cannot_run(cause: Failure) -> bool:
    if cause.kind is Kind.NOT_STARTED:
        return _CANNOT_RUN().match(cause.summary) is not None
    return cause.kind is Kind.EXITED and cause.exit_code in _SHELL_CANNOT_RUN


def _same(before: Failure | None, now: Failure | None) -> bool:
    return before is now if before is None or now is None else now.same_as(before)
