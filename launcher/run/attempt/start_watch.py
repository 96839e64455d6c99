"""Watches for processes and TensorFlow servers that do not come up. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Iterable

from launcher.cluster.spec import Task
from launcher.hosts.events import Awaited


class StartWatch:
    """Which tasks of an attempt have not started yet, which servers are not up, and until when they are waited for."""

    def __init__(self, tasks: Iterable[Task], limit: float, now: float) -> None:
        """`limit`: seconds for all processes to start, and for all servers once one is up (`timeouts.start`)."""
        self.unstarted = set(tasks)
        self._silent = {task for task in self.unstarted if task.type != "evaluator"}
        """Those whose server has not been up so far; an evaluator is a cluster of its own."""
        self._limit = limit
        self._start_until = now + limit
        self._listen_until: float | None = None
        """None: no server is up, so nobody waits for another one. The program may well be none of TensorFlow's."""

    def note_server(self, task: Task, now: float) -> None:
        self._silent.discard(task)
        self._listen_until = self._listen_until or now + self._limit

    @property
    def deadline(self) -> float | None:
        """When a task will have been waited for long enough."""
        due = [self._start_until if self.unstarted else None, self._listen_until if self._silent else None]
        return min((at for at in due if at is not None), default=None)

    def overdue(self, now: float) -> tuple[Awaited, Task] | None:
        """What was waited for in vain, and of which task."""
        if self.unstarted and now >= self._start_until:
            return "process", min(self.unstarted)
        if self._silent and self._listen_until is not None and now >= self._listen_until:
            return "server", min(self._silent)
        return None
