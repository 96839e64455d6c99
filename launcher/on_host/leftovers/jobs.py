"""The agent's job for `launch leftovers`: each command runs in a thread, because it may take long."""

from __future__ import annotations

import os
import select
import threading

from launcher.on_host.agent.jobs import Job
from launcher.on_host.leftovers.ending import end_run, remove_directory
from launcher.on_host.leftovers.finding import left_directories, left_processes
from launcher.on_host.leftovers.messages import (
    MOST_FOUND,
    DirectoryRemoved,
    EndRun,
    FindLeftovers,
    LeftoversFound,
    RemoveDirectory,
    RunEnded,
)

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable

    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.link import Link
    from launcher.on_host.agent.messages import Event


class LeftoversJob(Job):
    """One command at a time: the launcher waits for each answer. Meanwhile the agent answers heartbeats."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._answer: Event | None = None
        self._answered, self._answered_write = os.pipe()

    def handlers(self) -> Handlers:
        return {
            FindLeftovers: lambda asked: self._begin(lambda: found(asked)),
            EndRun: lambda asked: self._begin(lambda: RunEnded(end_run(asked.run, asked.grace))),
            RemoveDirectory: lambda asked: self._begin(
                lambda: DirectoryRemoved(remove_directory(os.path.expanduser(asked.runs_dir), asked.name))
            ),
        }

    def _begin(self, work: Callable[[], Event]) -> None:
        """Do it in a thread: a disk may be slow, and a grace may be long."""

        def answer() -> None:
            try:
                self._answer = work()
            finally:  # if `work` fails, its traceback is on stderr, and `on_ready` ends the agent
                os.write(self._answered_write, b".")

        threading.Thread(target=answer, daemon=True).start()

    @property
    def polled(self) -> dict[int, int]:
        return {self._answered: select.POLLIN}

    def on_ready(self, fd: int) -> None:
        os.read(fd, 1)
        if self._answer is None:
            os._exit(1)
        self._link.tell(self._answer)
        self._answer = None


def found(asked: FindLeftovers) -> LeftoversFound:
    """Find the processes and directories of all runs."""
    runs_dir = os.path.expanduser(asked.runs_dir)
    processes = left_processes()
    directories = list(left_directories(runs_dir, processes))
    unlisted = max(0, len(processes) - MOST_FOUND) + max(0, len(directories) - MOST_FOUND)
    return LeftoversFound(processes[:MOST_FOUND], directories[:MOST_FOUND], runs_dir, unlisted)
