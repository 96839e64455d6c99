"""How the members of a gang have ended so far, and what that says of the training. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from launcher.cluster.spec import Task, chief_of, trained_by
from launcher.hosts.events import TaskExited
from launcher.run.failure.ending import Ending
from launcher.run.failure.failure import Kind


class Endings:
    """The endings of an attempt, in order of arrival."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        everybody = tuple(tasks)
        self._chief = chief_of(everybody)
        self._training = trained_by(everybody)
        self._all: list[Ending] = []

    def add(self, ending: Ending) -> None:
        self._all.append(ending)

    @property
    def training_done(self) -> bool:
        """Each task that trains has ended well, or complained about the end of a peer that had."""
        ended = (each for each in self._all if isinstance(each.event, TaskExited))
        return self._training <= {each.event.task for each in ended if not each.bad or self.is_forgiven(each)}  # type: ignore[union-attr]

    @property
    def failures(self) -> list[Ending]:
        """All ends that are no success and not of the launcher's making."""
        return [each for each in self._all if each.bad and not each.stopped and not self.is_forgiven(each)]

    def is_forgiven(self, ending: Ending) -> bool:
        """A peer's complaint after the chief's success is no failure."""
        return self._chief_succeeded() and ending.failure.kind is Kind.COLLATERAL

    def _chief_succeeded(self) -> bool:
        exits = (each.event for each in self._all if isinstance(each.event, TaskExited))
        return any(event.task == self._chief and event.succeeded for event in exits)

    def telling(self, losses: Sequence[Ending]) -> tuple[Ending, ...]:
        """Return all endings, for the search of the root cause.

        `losses`, the ends of workers that the chief could do without, are no cause where there is another one.
        """
        if not losses or any(each.failure.is_conclusive for each in self._all):
            return tuple(self._all)
        return (*losses, *self._all)
