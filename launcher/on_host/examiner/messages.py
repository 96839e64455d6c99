"""What the examiner of `launch doctor` and the launcher say to each other, beside what every agent does."""

# No `from __future__ import annotations`: an annotation is the object that checks the field (`fields`).
from launcher.on_host.agent import messages
from launcher.on_host.agent.fields import (
    AnyText,
    Bulk,
    Count,
    ExitCode,
    Long,
    Piece,
    Port,
    SignalNumber,
    Tail,
    Words,
    by_name,
)
from launcher.on_host.agent.messages import Command, Event


class AskProgram(Command):
    """Run a program for so many seconds at most, `said` on its stdin.

    Answers: `ProgramNotRun`, or `ProgramSaid` as it comes, then `ProgramEnded`.
    """

    argv: Long[AnyText]
    env: dict[str, AnyText]
    cwd: AnyText
    seconds: float
    said: Bulk


class TellProgram(Command):
    """More for the program's stdin."""

    last: bool
    said: Bulk


class ProgramNotRun(Event):
    reason: Words


class ProgramSaid(Event):
    data: Piece


class ProgramEnded(Event):
    in_time: bool
    code: ExitCode | None
    signal: SignalNumber | None
    """Neither: it cannot be killed."""
    last_words: Tail


class TryGate(Command):
    """Find out whether strangers could be kept off the workers' ports. Answer: `GateTried`."""


class GateTried(Event):
    reason: Words
    """Why not; empty: they could."""


class CountBytes(Command):
    """From now on the held ports are there to be sent to. Answer: `CountingBytes`."""


class CountingBytes(Event):
    reason: Words
    """Why not; empty: it does."""


class MeasureSpeed(Command):
    """Find out how fast bytes get to an address where somebody counts them. Answer: `SpeedMeasured`."""

    address: AnyText
    port: Port
    size: Count
    seconds: float


class SpeedMeasured(Event):
    reason: Words
    """Why that could not be measured; empty: it was."""
    bytes: Count
    rate: float
    """Bytes a second."""
    round_trip: float
    """Seconds."""
    retransmitted: Count


COMMANDS = {**messages.COMMANDS, **by_name(Command, globals())}
EVENTS = {**messages.EVENTS, **by_name(Event, globals())}
