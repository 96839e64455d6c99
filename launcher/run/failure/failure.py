"""What a failure is: one member's end, understood. Pure."""

from __future__ import annotations

import enum
import re
import signal as signals
from collections.abc import Sequence
from typing import NamedTuple

from launcher.cluster.spec import Task
from launcher.hosts.events import HostLost, PortShared, Stalled, TaskExited, TaskStartFailed, TimedOut

EVERY_HOST = ""
EndingEvent = TaskExited | TaskStartFailed | HostLost | TimedOut | Stalled | PortShared


class Runtime(NamedTuple):
    """With what a program was started, as far as a remedy depends on it."""

    python: str | None = None
    has_keras_fix: bool = True
    """It was given the Keras fix, whether or not that came to work there."""
    has_tf_config: bool = True
    """The `TF_CONFIG` that launch sets wins over one that the program sets itself."""


class Evidence(NamedTuple):
    """What a remedy is chosen by."""

    text: str
    """An exception with all that it says, or a program's last lines."""
    host: str
    runtime: Runtime = Runtime()
    calls: Sequence[str] = ()
    """The lines of the traceback above the exception."""
    log: Sequence[str] = ()
    """All lines of the log that are known."""


class LastStep(NamedTuple):
    """How far a worker had come when it was last heard of."""

    step: int
    seconds: float
    """From that report to the worker's end."""


class Kind(enum.IntEnum):
    """What a failure is; the smaller, the likelier it is what brought the others down."""

    HOST_LOST = 1
    NOT_STARTED = 2
    PORT_SHARED = 3
    """Its server has its port together with another one of the run."""
    KILLED = 4
    """By a signal that was not ours, or because memory ran out."""
    CRASHED = 5
    """It printed a traceback of its own."""
    BAD_USAGE = 6
    """Exit code 2."""
    EXITED = 7
    """Another exit code, without a traceback."""
    STALLED = 8
    """It stopped making progress, or stopped answering its peers."""
    LEFT = 9
    """Exit code 0. It explains a peer's complaint, and is no failure otherwise."""
    COLLATERAL = 10
    """It failed because a peer had gone."""
    STOPPED = 11
    """The launcher ended it."""


class Failure(NamedTuple):
    """One member's end, understood."""

    kind: Kind
    host: str
    """`EVERY_HOST`: which one is not known."""
    task: Task | None
    """None: the host itself, or the gang as a whole."""
    exit_code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    stopped: bool = False
    summary: str = ""
    """One line: `ValueError: labels out of range`, or why a host was lost."""
    location: str | None = None
    """`file:line` of the user's own code."""
    excerpt: tuple[str, ...] = ()
    """Of its log: its traceback, or its last lines."""
    remedy: str | None = None
    accused: Task | None = None
    """The peer that it lost contact with, as far as TensorFlow says. `chief 0` also stands for whichever task leads."""
    last_step: LastStep | None = None

    @property
    def is_conclusive(self) -> bool:
        """Whether it can be the root cause; if not, its peers' ends are worth a moment's wait."""
        return self.kind < Kind.LEFT

    def same_as(self, other: Failure) -> bool:
        """Whether both tell of the same trouble, on whichever worker; numbers in the text do not count."""
        return self._likeness() == other._likeness()

    def _likeness(self) -> tuple[object, ...]:
        host = self.host if self.kind is Kind.HOST_LOST else None
        return self.kind, host, self.exit_code, self.signal, re.sub(r"\d+", "#", self.summary), self.location


def ending_signal(signal: int | None, exit_code: int | None) -> int | None:
    """The signal that ended a program: its own, or its child's, whose end a shell passes on as 128 + signal."""
    if signal is not None:
        return signal
    number = (exit_code or 0) - 128
    return number if number in (signals.SIGABRT, signals.SIGKILL, signals.SIGSEGV, signals.SIGTERM) else None
