"""What the agent does at a time: jobs, each of which gets its turn in the one loop (`launcher.on_host.agent.loop`)."""

from __future__ import annotations

import math

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable
    from typing import Any

    from launcher.on_host.agent.messages import Command

    Handlers = dict[type[Command], Callable[[Any], None]]


class Job:
    """One of them. It never waits: what it waits for is among its `polled`, or `due`."""

    def handlers(self) -> Handlers:
        """Who does what the launcher asks of this job."""
        return {}

    @property
    def polled(self) -> dict[int, int]:
        """Its descriptors, and what it waits for at each."""
        return {}

    @property
    def due(self) -> float:
        """When it has something to do even if nothing happens, on the monotonic clock."""
        return math.inf

    def on_ready(self, fd: int) -> None:
        """Something has happened at one of its descriptors."""

    def step(self, now: float) -> None:
        """Do what there is to do. It comes in each turn of the loop, and may look at once whether it is too early."""

    def child_ended(self, pid: int, status: int) -> None:
        """A process below the agent was reaped; it may have been this job's."""

    def close(self) -> None:
        """The launcher is gone: let go of what was begun for it alone."""
