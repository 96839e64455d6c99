"""How the members of a gang ended. Pure."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from launcher.hosts.events import TaskExited
from launcher.run.failure.failure import EndingEvent, Failure, LastStep, Runtime


@dataclass(frozen=True)
class Ending:
    """How a member of the gang, or its host, ended."""

    event: EndingEvent
    stopped: bool
    """The launcher had already told the gang to stop: the exit is of our making, the log need not be."""
    last_step: LastStep | None = None
    """How far the worker had come, as far as it reported that."""
    runtime: Runtime = field(default_factory=Runtime)

    @property
    def bad(self) -> bool:
        """Whether it is anything but a worker that ended well."""
        return not (isinstance(self.event, TaskExited) and self.event.succeeded)

    @functools.cached_property
    def failure(self) -> Failure:
        """What the end means. The log is read once, when somebody first asks."""
        from launcher.run.failure.classify import classify  # 10 ms of patterns, which no run needs before it fails

        return classify(self.event, self.stopped, self.runtime)._replace(last_step=self.last_step)
