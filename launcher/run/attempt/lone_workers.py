"""Workers whose end the training survives, and that are started again alone. Pure: the time is an argument.

With a chief and parameter servers TensorFlow's `ClusterCoordinator` sends each step to whichever workers there are.
What a dead worker had to do goes to another one, and a worker that comes back at its address is taken in again
(`tensorflow/python/distribute/coordinator/cluster_coordinator.py`, `WorkerPreemptionHandler`).
"""

from __future__ import annotations

from collections.abc import Iterable

from launcher.cluster.cluster import RestartLimits
from launcher.cluster.spec import Task, has_coordinator
from launcher.run.failure.ending import Ending
from launcher.run.failure.restart_policy import delay_of, lasting_reason


class LoneWorkers:
    """The workers that a coordinator can do without: which have served it, which are lost, which come back when."""

    def __init__(self, tasks: Iterable[Task], limits: RestartLimits, used: int) -> None:
        """`used`: how many of `limits.max_restarts` the run has used up before."""
        everybody = set(tasks)
        self._workers = {task for task in everybody if task.type == "worker"} if has_coordinator(everybody) else set()
        self._limits = limits
        self._used_before = used
        self._serving: set[Task] = set()
        self._due: dict[Task, float] = {}
        self.lost: set[Task] = set()
        """Not running now, whether or not they come back."""
        self.losses: list[Ending] = []
        self.restarts = 0
        """How many of them were started again, or will be."""

    def note_server(self, task: Task) -> None:
        if task in self._workers:
            self._serving.add(task)

    def can_miss(self, task: Task) -> bool:
        """Whether the training goes on without it.

        A worker that ends before its server was ever up was never part of it: the chief is still waiting for it.
        """
        return task in self._serving

    def lose(self, ending: Ending, task: Task, now: float) -> float | None:
        """Note that a worker has ended; return in how many seconds it is started again, if it is."""
        self.losses.append(ending)
        self.lost.add(task)
        used_up = self._used_before + self.restarts >= self._limits.max_restarts
        if used_up or lasting_reason(ending.failure) is not None:
            return None
        self.restarts += 1
        delay = delay_of(self.restarts, self._limits.backoff)
        self._due[task] = now + delay
        return delay

    @property
    def counted_restarts(self) -> str:
        """How many restarts the run has had, those of the whole gang included: `restart 1 of 3`."""
        return f"restart {self._used_before + self.restarts} of {self._limits.max_restarts}"

    @property
    def all_are_gone(self) -> bool:
        """No worker is left, and none comes back."""
        return bool(self._workers) and self._workers <= self.lost and not self._due

    @property
    def deadline(self) -> float | None:
        """When the next worker is started again."""
        return min(self._due.values(), default=None)

    def take_due(self, now: float) -> list[Task]:
        """Return the workers to be started now; from here on they count as running."""
        due = [task for task, at in self._due.items() if at <= now]
        for task in due:
            del self._due[task]
        self.lost.difference_update(due)
        return due
