"""What the agent of `launch leftovers` and the launcher say to each other, beside what every agent does."""

# No `from __future__ import annotations`: an annotation is the object that checks the field (`fields`).
from launcher.on_host.agent import messages
from launcher.on_host.agent.fields import AnyText, Count, Long, Message, Pid, Words, by_name
from launcher.on_host.agent.messages import Command, Event

MOST_FOUND = 1000
"""Processes, and directories, that are told; a frame has room for them."""


class LeftProcess(Message):
    """A process of a run."""

    run: str
    pid: Pid
    age: float
    """Seconds."""
    command_line: str
    agent: Pid | None
    """The living agent above it; without one nobody will end it."""


class LeftDirectory(Message):
    """A run's directory."""

    name: AnyText
    path: AnyText
    size: Count
    """Bytes of all files in it."""
    age: float
    """Seconds since the newest of them was changed."""
    is_used: bool
    """Its run is under way, or somebody works in it."""


class FindLeftovers(Command):
    """Look for processes of runs, and below `runs_dir` for their directories. Answer: `LeftoversFound`."""

    runs_dir: AnyText


class LeftoversFound(Event):
    processes: Long[LeftProcess]
    directories: Long[LeftDirectory]
    runs_dir: AnyText
    """Its whole path."""
    unlisted: Count
    """How many more there are of both."""


class EndRun(Command):
    """End all processes of a run: SIGTERM, after `grace` seconds SIGKILL. Answer: `RunEnded`."""

    run: str
    grace: float


class RunEnded(Event):
    survivors: Long[Pid]


class RemoveDirectory(Command):
    """Delete a run's directory, if nobody uses it. Answer: `DirectoryRemoved`."""

    runs_dir: AnyText
    name: AnyText


class DirectoryRemoved(Event):
    reason: Words
    """Why it was not; empty: it was."""


COMMANDS = {**messages.COMMANDS, **by_name(Command, globals())}
EVENTS = {**messages.EVENTS, **by_name(Event, globals())}
