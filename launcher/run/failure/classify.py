"""What the end of a member of the gang means. Pure."""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence

from launcher.cluster.spec import Task
from launcher.console import collateral
from launcher.errors import EXIT_USAGE
from launcher.hosts.events import Awaited, HostLost, PortShared, Stalled, TaskExited, TaskStartFailed, TimedOut
from launcher.hosts.shortage import for_shortage
from launcher.run.failure import remedies
from launcher.run.failure.excerpt import last_lines, log_lines
from launcher.run.failure.failure import EVERY_HOST, EndingEvent, Evidence, Failure, Kind, Runtime, ending_signal
from launcher.run.failure.misplaced_servers import remedy_for_sharing, sharing
from launcher.run.failure.traceback_text import Crash, last_crash

_CRASH_SIGNALS = frozenset({signals.SIGSEGV, signals.SIGABRT, signals.SIGBUS, signals.SIGFPE, signals.SIGILL})
LAST_WORDS = 10
"""Lines that are shown of a worker whose end came from outside: they do not explain it."""
_NOT_ITS_OWN = ("KeyboardInterrupt", "SystemExit")


def classify(event: EndingEvent, stopped: bool, runtime: Runtime) -> Failure:
    """Understand how a member of the gang, or its host, has ended. For the arguments see `Ending`."""
    match event:
        case HostLost(host, reason, remedy):
            return Failure(Kind.HOST_LOST, host, None, stopped=stopped, summary=reason, remedy=remedy)
        case TaskStartFailed(host, task, reason):
            remedy = remedies.for_failed_program(Evidence(reason, host, runtime))
            return Failure(Kind.NOT_STARTED, host, task, stopped=stopped, summary=reason, remedy=remedy)
        case TimedOut():
            return _timed_out(*event)
        case Stalled():
            return _stalled(event)
        case PortShared():
            return _port_shared(event, runtime)
        case TaskExited():
            failure = _exited(event, stopped, runtime)
            if event.log_disk_full and failure.kind < Kind.LEFT and not failure.remedy:
                failure = failure._replace(remedy=remedies.for_full_log_disk(failure.host))
            return failure


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


def _port_shared(event: PortShared, runtime: Runtime) -> Failure:
    remedy = remedy_for_sharing(event, runtime)
    return Failure(Kind.PORT_SHARED, event.host, event.task, summary=sharing(event), remedy=remedy)


def _stalled(event: Stalled) -> Failure:
    """A stall is nobody's failure: all workers wait for the one that hangs."""
    last = f"; the last was {event.last_step}" if event.last_step else ""
    summary = (
        f"no worker made a step for {event.seconds:g} s (timeouts.stall){last}; "
        "which one holds up the others is not known"
    )
    remedy = "a worker may wait for input or for a lock; if steps are only slow, give timeouts.stall more"
    return Failure(Kind.STALLED, EVERY_HOST, None, summary=summary, remedy=remedy)


def _exited(event: TaskExited, stopped: bool, runtime: Runtime) -> Failure:
    plain = Failure(Kind.EXITED, event.host, event.task, event.exit_code, event.signal, event.out_of_memory, stopped)
    if event.succeeded:
        return plain._replace(kind=Kind.STOPPED if stopped else Kind.LEFT)
    lines = log_lines(event.tail)
    by = ending_signal(event.signal, event.exit_code)
    if event.out_of_memory or (not stopped and by and by not in _CRASH_SIGNALS):
        own = [line for line in lines if not line.startswith("tf-launch: ")]
        return _killed(plain._replace(excerpt=last_lines(own, LAST_WORDS)), lines)
    crash = _telling(last_crash(lines), event, stopped)
    if crash is not None:
        return _crashed(plain, crash, lines, runtime)
    return _without_traceback(plain._replace(excerpt=last_lines(lines)), runtime)


def _killed(failure: Failure, lines: Sequence[str]) -> Failure:
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


def _crashed(plain: Failure, crash: Crash, lines: Sequence[str], runtime: Runtime) -> Failure:
    """The exception that came first tells the kind: a lost peer may be what it led to, or what led to it."""
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
        else remedies.for_failed_program(Evidence(told.text, plain.host, runtime, told.calls, lines)),
        accused=collateral.accused(first.text) if kind is Kind.COLLATERAL else None,
    )


def _without_traceback(plain: Failure, runtime: Runtime) -> Failure:
    text = "\n".join(plain.excerpt)
    if collateral.is_collateral(text):
        return plain._replace(kind=Kind.COLLATERAL, accused=collateral.accused(text))
    if plain.stopped:
        return plain._replace(kind=Kind.STOPPED)
    if ending_signal(plain.signal, plain.exit_code):
        return plain._replace(
            kind=Kind.KILLED, remedy=remedies.for_last_words(plain.excerpt, None, plain.host, runtime)
        )
    remedy = remedies.for_last_words(plain.excerpt, plain.exit_code, plain.host, runtime)
    return plain._replace(kind=Kind.BAD_USAGE if plain.exit_code == EXIT_USAGE else Kind.EXITED, remedy=remedy)
