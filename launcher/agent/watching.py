"""Looks at the workers from time to time, and tells the launcher which of them only wait."""

from __future__ import annotations

from launcher.agent.processes import descendants, processes
from launcher.agent.rest import AT_REST, Rest, tensorflow_process, waits_for_lock

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable, Iterable

    from launcher.agent.workers import Worker

STOP_LOOK = 0.25
"""Seconds between two looks after a stop signal."""


class Watch:
    """The workers of this host from their start to their end: who is at rest."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self.tell = tell
        self.stopping = False
        self.due = 0.0
        self.rests: dict[str, Rest] = {}
        self.resting: set[str] = set()

    def begin_stop(self) -> None:
        """The workers were told to stop: rest counts from now on."""
        if not self.stopping:
            self.stopping = True
            self.due = 0.0
            self.rests.clear()

    def look(self, workers: Iterable[Worker], now: float) -> None:
        """Look, if it is time, and tell what has changed."""
        if not self.stopping or now < self.due:
            return
        self.due = now + STOP_LOOK
        running = [worker for worker in workers if not worker.exited]
        table = processes() if running else {}
        for worker in running:
            pids = [worker.pid, *descendants(worker.pid, table)]
            rest = self.rests.setdefault(worker.name, Rest())
            seconds = rest.look(pids, worker.told_bytes(), now)
            self._tell_resting(worker.name, seconds >= AT_REST and waits_in_tensorflow(pids))

    def _tell_resting(self, name: str, rests: bool) -> None:
        if rests != (name in self.resting):
            self.resting ^= {name}
            self.tell("resting", task=name, resting=rests)


def waits_in_tensorflow(pids: list[int]) -> bool:
    """Whether the program has TensorFlow loaded, and its main thread waits for a lock: for its peers, then."""
    program = tensorflow_process(pids)
    return program is not None and waits_for_lock(program)
