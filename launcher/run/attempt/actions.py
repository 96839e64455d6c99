"""What the gang of an attempt wants done, and how the attempt ended, as values."""

from __future__ import annotations

from typing import NamedTuple

from launcher.cluster.spec import Task
from launcher.run.failure.ending import Ending
from launcher.run.failure.failure import Failure
from launcher.run.failure.root_cause import root_cause


class StopGang(NamedTuple):
    """Signal every process of the run on every host (0: nothing); SIGKILL follows after `grace` seconds."""

    signal: int
    grace: float


class Tell(NamedTuple):
    """A line of the launcher's own for the user."""

    text: str
    error: bool = False
    """A quiet console shows it, too."""


class StartAgain(NamedTuple):
    """Start this task's process anew, while all others run on."""

    task: Task


class WatchEvaluator(NamedTuple):
    """Have the host of this task look whether it has seen the last checkpoint: it answers with `EvaluatorDone`."""

    task: Task


Action = StopGang | Tell | StartAgain | WatchEvaluator


class AttemptResult(NamedTuple):
    """How an attempt ended. `endings` are in order of arrival."""

    succeeded: bool
    endings: tuple[Ending, ...]
    interrupted: int | None
    """The signal that ended it, if the user did."""
    lone_restarts: int = 0
    """How often a worker was started again alone."""
    training_done: bool = False
    """Also where an evaluator failed."""

    @property
    def cause(self) -> Failure | None:
        """What brought it down; None: nothing did, or nothing that can be told."""
        return None if self.succeeded else root_cause([each.failure for each in self.endings])
