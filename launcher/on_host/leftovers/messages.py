"""The messages of `launch leftovers`, in addition to those of every agent."""

# No `from __future__ import annotations`: an annotation is the object that checks the field (`fields`).
from launcher.on_host.agent import messages
from launcher.on_host.agent.fields import AnyText, Count, Long, Message, Pid, Words, by_name
from launcher.on_host.agent.messages import Command, Event

MOST_FOUND = 1000
"""Processes, and directories, that are listed, so that the answer fits into a frame."""


class LeftProcess(Message):
    """A process of a run."""

    run: str
    pid: Pid
    age: float
    """Seconds."""
    command_line: str
    agent: Pid | None
    """The agent above it that is alive; without one, nothing will ever end it."""


class LeftDirectory(Message):
    """A run's directory."""

    name: AnyText
    path: AnyText
    size: Count
    """Bytes of all files in it."""
    age: float
    """Seconds since the newest of them was modified."""
    is_used: bool
    """Its run is under way, or some process works in it."""


class FindLeftovers(Command):
    """Look for processes of runs, and below `runs_dir` for their directories. Answer: `LeftoversFound`."""

    runs_dir: AnyText


class LeftoversFound(Event):
    processes: Long[LeftProcess]
    directories: Long[LeftDirectory]
    runs_dir: AnyText
    """Its absolute path."""
    unlisted: Count
    """How many more there are of both together."""


class EndRun(Command):
    """End all processes of a run: SIGTERM, after `grace` seconds SIGKILL. Answer: `RunEnded`."""

    run: str
    grace: float


class RunEnded(Event):
    survivors: Long[Pid]


class RemoveDirectory(Command):
    """Delete a run's directory unless it is in use. Answer: `DirectoryRemoved`."""

    runs_dir: AnyText
    name: AnyText


class DirectoryRemoved(Event):
    reason: Words
    """Why it could not be deleted; empty if it was."""


COMMANDS = {**messages.COMMANDS, **by_name(Command, globals())}
EVENTS = {**messages.EVENTS, **by_name(Event, globals())}
