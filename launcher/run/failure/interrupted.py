"""Where each worker was when the user stopped the run: a line a worker, in place of tracebacks. Pure."""

from __future__ import annotations

import functools
import signal as signals
from collections.abc import Callable, Iterable, Iterator

from launcher.cluster.spec import Task
from launcher.console.collateral import is_collateral
from launcher.hosts.events import TaskExited
from launcher.run.failure.ending import Ending
from launcher.run.failure.excerpt import log_lines
from launcher.run.failure.failure import LastStep, ending_signal
from launcher.run.failure.traceback_text import Crash, Raised, last_crash
from launcher.wording import signal_name

INTERRUPT = "KeyboardInterrupt"
"""Python's, alone or in what TensorFlow's C++ says where it was about to raise an error of its own."""


def last_places(endings: Iterable[Ending], shortened: Callable[[Task, str], str]) -> Iterator[str]:
    """A line for each worker: where it was, or how else it ended.

    Args:
        endings: all of an attempt that the user stopped.
        shortened: what a person calls a `file:line` of a task.
    """
    exits = {each.event.task: each for each in endings if isinstance(each.event, TaskExited)}
    for task, ending in sorted(exits.items()):
        assert isinstance(ending.event, TaskExited)
        yield f"{task} {_last_place(ending.event, functools.partial(shortened, task))}{_step(ending.last_step)}"


def _last_place(event: TaskExited, shortened: Callable[[str], str]) -> str:
    crash = last_crash(log_lines(event.tail))
    interrupted = crash and _interrupted(crash)
    if crash and not interrupted:
        return f"failed: {crash.chain[-1].summary}"
    if interrupted and interrupted.location:
        return f"was at {shortened(interrupted.location)}"
    return _end(event)


def _interrupted(crash: Crash) -> Raised | None:
    """The exception by which the stop reached the program: Python's, or TensorFlow's about a peer that ended first."""
    first, last = crash.chain[0], crash.chain[-1]
    if INTERRUPT in last.summary:
        return last
    return first if is_collateral(first.text) else None


def _end(event: TaskExited) -> str:
    number = ending_signal(event.signal, event.exit_code)
    if number == signals.SIGKILL:
        return "was killed"
    return f"was ended by {signal_name(number)}" if number else f"ended with exit code {event.exit_code}"


def _step(last: LastStep | None) -> str:
    return "" if last is None else f" (step {last.step})"
