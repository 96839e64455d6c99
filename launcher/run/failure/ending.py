"""How the members of a gang ended. Pure."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

from launcher.hosts.events import TaskExited, reported_step
from launcher.run.failure.failure import UNKNOWN_RUNTIME, EndingEvent, Failure, LastStep, Runtime


class LastReport(NamedTuple):
    """What a worker last wrote to the file that `LAUNCH_PROGRESS` names."""

    line: bytes
    """One JSON object, if the program keeps to what is agreed."""
    seconds: float
    """From its arrival to the worker's end."""


@dataclass(frozen=True)
class Ending:
    """How a member of the gang, or its host, ended."""

    event: EndingEvent
    stopped: bool
    """The launcher had already told the gang to stop: the exit is of our making, the log need not be."""
    last_report: LastReport | None = None
    runtime: Runtime = UNKNOWN_RUNTIME

    @property
    def bad(self) -> bool:
        """Whether it is anything but a worker that ended well."""
        return not (isinstance(self.event, TaskExited) and self.event.succeeded)

    @functools.cached_property
    def failure(self) -> Failure:
        """What the end means. The log is read once, when somebody first asks."""
        from launcher.run.failure.classify import classify  # 10 ms of patterns, which no run needs before it fails

        return classify(self.event, self.stopped, self.runtime)._replace(last_step=self.last_step)

    @property
    def last_step(self) -> LastStep | None:
        """How far the worker had come, as far as it reported that."""
        step = None if self.last_report is None else reported_step(self.last_report.line)
        return None if self.last_report is None or step is None else LastStep(step, self.last_report.seconds)
