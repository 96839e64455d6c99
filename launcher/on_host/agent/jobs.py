"""A job of the agent: each gets its turn in the one event loop (`launcher.on_host.agent.loop`)."""

from __future__ import annotations

import math

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable
    from typing import Any

    from launcher.on_host.agent.messages import Command

    Handlers = dict[type[Command], Callable[[Any], None]]


class Job:
    """Something that the agent does beside other things. No method blocks: `polled` and `due` say what it waits for."""

    def handlers(self) -> Handlers:
        """The method for each command that this job handles."""
        return {}

    @property
    def polled(self) -> dict[int, int]:
        """Its descriptors, each with the events of poll(2) that it waits for."""
        return {}

    @property
    def due(self) -> float:
        """When to call `step` even if nothing happens, on the monotonic clock."""
        return math.inf

    def on_ready(self, fd: int) -> None:
        """One of its descriptors is ready."""

    def step(self, now: float) -> None:
        """Do what is due. Called in every turn of the loop, also before `due`."""

    def child_ended(self, pid: int, status: int) -> None:
        """A process was reaped, which may have been this job's."""

    def close(self) -> None:
        """The launcher is gone: drop what was only for it."""
