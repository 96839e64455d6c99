"""How the members of a gang ended, and what each end means. Pure."""

from __future__ import annotations

import enum
import re
import signal as signals
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from launcher.cluster.spec import Task
from launcher.errors import EXIT_USAGE
from launcher.hosts.events import (
    Awaited,
    HostLost,
    PortShared,
    Stalled,
    TaskExited,
    TaskStartFailed,
    TimedOut,
    reported_step,
)

if TYPE_CHECKING:
    from launcher.run.failure.traceback_text import Crash


class LastReport(NamedTuple):
    """What a worker last wrote to the file that `LAUNCH_PROGRESS` names."""

    line: bytes
    """One JSON object, if the program keeps to what is agreed."""
    seconds: float
    """From its arrival to the worker's end."""


class LastStep(NamedTuple):
    """How far a worker had come when it was last heard of."""

    step: int
    seconds: float
    """From that report to the worker's end."""


class Ending(NamedTuple):
    """How a member of the gang, or its host, ended."""

    event: TaskExited | TaskStartFailed | HostLost | TimedOut | Stalled | PortShared
    stopped: bool
    """The launcher had already told the gang to stop: the exit is of our making, the log need not be."""
    last_report: LastReport | None = None

    @property
    def bad(self) -> bool:
        """Anything but a worker that ended well."""
        return not (isinstance(self.event, TaskExited) and self.event.succeeded)


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

    def same_as(self, other: Failure) -> bool:
        """Whether both tell of the same trouble, on whichever worker; numbers in the text do not count."""
        return self._likeness() == other._likeness()

    def _likeness(self) -> tuple[object, ...]:
        return self.kind, self.exit_code, self.signal, re.sub(r"\d+", "#", self.summary), self.location


EVERY_HOST = ""

_CRASH_SIGNALS = frozenset({signals.SIGSEGV, signals.SIGABRT, signals.SIGBUS, signals.SIGFPE, signals.SIGILL})
LAST_WORDS = 10
"""Lines that are shown of a worker whose end came from outside: they do not explain it."""
_NOT_ITS_OWN = ("KeyboardInterrupt", "SystemExit")


def classify(ending: Ending, python: str | None = None) -> Failure:
    """Understand one end. `python`, the interpreter of that host, is only named in remedies."""
    from launcher.run.failure import remedies  # like all that reads a log: late, for no start-up should pay for it

    match ending.event:
        case HostLost(host, reason, remedy):
            return Failure(Kind.HOST_LOST, host, None, stopped=ending.stopped, summary=reason, remedy=remedy)
        case TaskStartFailed(host, task, reason):
            remedy = remedies.for_text(reason, host, python)
            return Failure(Kind.NOT_STARTED, host, task, stopped=ending.stopped, summary=reason, remedy=remedy)
        case TimedOut():
            return _timed_out(*ending.event)
        case Stalled():
            return _stalled(ending.event)
        case PortShared():
            return _port_shared(ending.event)
        case TaskExited():
            failure = _exited(ending.event, ending.stopped, python)
            if ending.event.log_disk_full and failure.kind < Kind.LEFT and not failure.remedy:
                failure = failure._replace(remedy=remedies.for_full_log_disk(failure.host))
            return failure._replace(last_step=_last_step(ending.last_report))


def is_conclusive(failure: Failure) -> bool:
    """Whether the failure can be the root cause; if not, its peers' ends are worth a moment's wait."""
    return failure.kind < Kind.LEFT


def _timed_out(host: str, task: Task, awaited: Awaited, limit: float) -> Failure:
    if awaited == "process":
        summary = f"its process had not started after {limit:g} s (timeouts.start)"
        return Failure(Kind.NOT_STARTED, host, task, summary=summary)
    summary = f"its server was not up {limit:g} s after the first one (timeouts.start), and the others waited for it"
    remedy = (
        "does it end before it creates the strategy, or prepare for long, or use another cluster than TF_CONFIG's? "
        "If it is only slow to begin, give timeouts.start more"
    )
    return Failure(Kind.NOT_STARTED, host, task, summary=summary, remedy=remedy)


def _port_shared(event: PortShared) -> Failure:
    from launcher.run.failure.misplaced_servers import remedy_for_sharing, sharing

    task = event.processes[0][0]
    return Failure(Kind.PORT_SHARED, event.host, task, summary=sharing(event), remedy=remedy_for_sharing(event))


def _stalled(event: Stalled) -> Failure:
    """Of nobody in particular: all workers wait for the one that hangs."""
    last = f"; the last was {event.last_step}" if event.last_step else ""
    summary = (
        f"no worker made a step for {event.seconds:g} s (timeouts.stall){last}; "
        "which one holds up the others is not known"
    )
    remedy = "a worker may wait for input or for a lock; if steps are only slow, give timeouts.stall more"
    return Failure(Kind.STALLED, EVERY_HOST, None, summary=summary, remedy=remedy)


def _exited(event: TaskExited, stopped: bool, python: str | None) -> Failure:
    from launcher.run.failure.excerpt import last_lines, log_lines
    from launcher.run.failure.traceback_text import last_crash

    plain = Failure(Kind.EXITED, event.host, event.task, event.exit_code, event.signal, event.out_of_memory, stopped)
    if event.succeeded:
        return plain._replace(kind=Kind.STOPPED if stopped else Kind.LEFT)
    lines = log_lines(event.tail)
    if event.out_of_memory or (not stopped and _signal_of(event) and _signal_of(event) not in _CRASH_SIGNALS):
        own = [line for line in lines if not line.startswith("tf-launch: ")]
        return _killed(plain._replace(excerpt=last_lines(own, LAST_WORDS)), lines)
    crash = _telling(last_crash(lines), event, stopped)
    if crash is not None:
        return _crashed(plain, crash, lines, python)
    return _without_traceback(plain._replace(excerpt=last_lines(lines)), python)


def _last_step(report: LastReport | None) -> LastStep | None:
    step = None if report is None else reported_step(report.line)
    return None if report is None or step is None else LastStep(step, report.seconds)


def _killed(failure: Failure, lines: Sequence[str]) -> Failure:
    from launcher.hosts.shortage import for_shortage
    from launcher.run.failure import remedies

    remedy = remedies.for_no_memory(failure.host) if failure.out_of_memory else None
    if failure.signal == signals.SIGINT:  # so NumPy ends a process that gets no threads
        remedy = for_shortage("\n".join(lines), (), failure.host)
    return failure._replace(kind=Kind.KILLED, remedy=remedy)


def _telling(crash: Crash | None, event: TaskExited, stopped: bool) -> Crash | None:
    """The traceback, if it is what ended the program or what it came to before we ended it."""
    if crash is None or (stopped and crash.chain[-1].summary.startswith(_NOT_ITS_OWN)):
        return None
    if stopped:
        return None if crash.logged or crash.went_on else crash
    return crash if crash.ends_log or (event.exit_code == 1 and not crash.logged) or event.signal else None


def _crashed(plain: Failure, crash: Crash, lines: Sequence[str], python: str | None) -> Failure:
    """Judged by the exception that came first: a lost peer may be what it led to, or what led to it."""
    from launcher.console import collateral
    from launcher.run.failure import remedies

    first, last = crash.chain[0], crash.chain[-1]
    twice = collateral.started_twice(first.text)
    if twice is not None and twice == plain.task:
        kind, told = Kind.CRASHED, first  # of another process with its name, not of a peer
    elif collateral.is_collateral(first.text):
        kind, told = Kind.COLLATERAL, last
    else:
        kind, told = Kind.CRASHED, first if collateral.is_collateral(last.text) else last
    return plain._replace(
        kind=kind,
        summary=told.summary,
        location=told.location,
        excerpt=crash.excerpt,
        remedy=remedies.for_two_of(twice)
        if twice
        else remedies.for_text(told.text, plain.host, python, told.calls, lines),
        accused=collateral.accused(first.text) if kind is Kind.COLLATERAL else None,
    )


def _without_traceback(plain: Failure, python: str | None) -> Failure:
    from launcher.console import collateral
    from launcher.run.failure import remedies

    text = "\n".join(plain.excerpt)
    if collateral.is_collateral(text):
        return plain._replace(kind=Kind.COLLATERAL, accused=collateral.accused(text))
    if plain.stopped:
        return plain._replace(kind=Kind.STOPPED)
    if plain.signal is not None or shell_signal(plain.exit_code):
        return plain._replace(kind=Kind.KILLED, remedy=remedies.for_last_words(plain.excerpt, None, plain.host, python))
    remedy = remedies.for_last_words(plain.excerpt, plain.exit_code, plain.host, python)
    return plain._replace(kind=Kind.BAD_USAGE if plain.exit_code == EXIT_USAGE else Kind.EXITED, remedy=remedy)


def _signal_of(event: TaskExited) -> int | None:
    return event.signal if event.signal is not None else shell_signal(event.exit_code)


def shell_signal(exit_code: int | None) -> int | None:
    """The signal behind an exit code of 128 + signal, with which a shell passes on the end of its child."""
    number = (exit_code or 0) - 128
    return number if number in (signals.SIGABRT, signals.SIGKILL, signals.SIGSEGV, signals.SIGTERM) else None
