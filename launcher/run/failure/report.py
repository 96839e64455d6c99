"""The launcher's last words about a failure. Pure."""

from __future__ import annotations

import signal as signals

from launcher.run.failure.failure import Failure, Kind, ending_signal
from launcher.wording import duration, harmless_line, signal_name

_UNEXPLAINED = (Kind.KILLED, Kind.EXITED, Kind.LEFT, Kind.STALLED)
"""Ends that leave no traceback: how far the worker had come is all there is to tell."""


def report(failure: Failure, log: str | None = None) -> list[str]:
    """What a person reads last: who, how, how far it had come, the end of its log, where the rest is, what to do.

    `log`: the file that holds all that it wrote; None: it wrote nothing.
    """
    lines = [headline(failure), *(f"  {line}" for line in failure.excerpt)]
    if failure.last_step is not None and failure.kind in _UNEXPLAINED:
        lines.insert(
            1, f"Its last step was {failure.last_step.step}, {duration(failure.last_step.seconds)} before its end."
        )
    if log is not None and failure.task is not None:
        lines.append(f"Its whole log: {log}")
    if failure.remedy:
        lines.append(f"What to do: {harmless_line(failure.remedy)}")
    return lines


def headline(failure: Failure) -> str:
    """Who, how, and what it said itself, in one line."""
    where = f" ({failure.location})" if failure.location else ""
    says = f": {failure.summary}{where}" if failure.summary else ""
    return harmless_line(f"{_who(failure)} {_how(failure)}{says}")


def _who(failure: Failure) -> str:
    if failure.task:
        return f"{failure.task} on {failure.host}"
    return f"host {failure.host}" if failure.host else "the run"


def _how(failure: Failure) -> str:
    match failure.kind:
        case Kind.HOST_LOST:
            return "was lost"
        case Kind.NOT_STARTED:
            return "could not be started"
        case Kind.PORT_SHARED:
            return "does not have its port for itself"
        case Kind.STALLED:
            return "stalled"
        case Kind.STOPPED:
            return "was stopped by the launcher"
        case Kind.KILLED:
            return _killed_by(failure)
        case Kind.COLLATERAL:
            return f"failed because it lost contact with {failure.accused or 'another worker'} ({_exit(failure)})"
        case Kind.CRASHED if failure.stopped:
            return "failed before the launcher stopped it"
        case _:
            return f"failed ({_exit(failure)})" if failure.exit_code != 0 else "ended too early (exit code 0)"


def _killed_by(failure: Failure) -> str:
    if failure.out_of_memory:
        return f"was killed by the kernel: out of memory ({_exit(failure)})"
    known: dict[int | None, str] = {
        signals.SIGKILL: ", not by the launcher; often it is the kernel when memory runs out",
        signals.SIGTERM: ", not by the launcher: by an administrator, a batch system or a preemption",
    }
    number = ending_signal(failure.signal, failure.exit_code)
    return f"was killed by {_exit(failure)}{known.get(number, '')}"


def _exit(failure: Failure) -> str:
    if failure.signal is not None:
        return signal_name(failure.signal)
    from_shell = ending_signal(None, failure.exit_code)
    return f"exit code {failure.exit_code}" + (f": {signal_name(from_shell)}" if from_shell else "")
