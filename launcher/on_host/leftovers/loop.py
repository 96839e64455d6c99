"""The agent that looks for leftovers: the loop of the plain one, and a thread for what may take its time."""

from __future__ import annotations

import os
import select
import threading

from launcher.on_host.agent.loop import Agent
from launcher.on_host.leftovers.ending import end_run, remove_directory
from launcher.on_host.leftovers.finding import left_directories, left_processes
from launcher.on_host.leftovers.messages import (
    COMMANDS,
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

    from launcher.on_host.agent.messages import Event


class LeftoversAgent(Agent):
    """One thing at a time: who asks waits for the answer. Meanwhile the agent answers each heartbeat."""

    known = COMMANDS

    def __init__(self, guard_gone: int) -> None:
        super().__init__(guard_gone)
        self.answer: Event | None = None
        self.answered, self.answered_write = os.pipe()
        self.doers |= {
            FindLeftovers: lambda asked: self.begin(lambda: found(asked)),
            EndRun: lambda asked: self.begin(lambda: RunEnded(end_run(asked.run, asked.grace))),
            RemoveDirectory: lambda asked: self.begin(
                lambda: DirectoryRemoved(remove_directory(os.path.expanduser(asked.runs_dir), asked.name))
            ),
        }

    def begin(self, work: Callable[[], Event]) -> None:
        """Do it in a thread; a disk may be slow, and a grace is long."""

        def answer() -> None:
            try:
                self.answer = work()
            finally:  # whatever goes wrong there stands on stderr, and ends the agent
                os.write(self.answered_write, b".")

        threading.Thread(target=answer, daemon=True).start()

    def _poller(self) -> select.poll:
        poller = super()._poller()
        poller.register(self.answered, select.POLLIN)
        return poller

    def _serve(self, fd: int) -> None:
        if fd != self.answered:
            super()._serve(fd)
            return
        os.read(fd, 1)
        if self.answer is None:
            os._exit(1)
        self.tell(self.answer)
        self.answer = None


def found(asked: FindLeftovers) -> LeftoversFound:
    """All that is there."""
    runs_dir = os.path.expanduser(asked.runs_dir)
    processes = left_processes()
    directories = list(left_directories(runs_dir, processes))
    unlisted = max(0, len(processes) - MOST_FOUND) + max(0, len(directories) - MOST_FOUND)
    return LeftoversFound(processes[:MOST_FOUND], directories[:MOST_FOUND], runs_dir, unlisted)
