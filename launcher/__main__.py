"""`launch`, and `python -m launcher`."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` imports more
import posix


def end(number: int, _frame: object) -> None:
    """What a signal does until a run takes the signals over: nothing is begun, so nothing is to be ended.

    A KeyboardInterrupt would show a traceback, or get lost inside an import.
    """
    posix._exit(128 + number)


for ending in (_signal.SIGINT, _signal.SIGTERM):
    _signal.signal(ending, end)

import sys

if sys.flags.no_site:  # scripts/launch: nothing is imported before the line above
    import site

    site.main()

import contextlib
import os
import signal
from pathlib import Path
from typing import NoReturn

from launcher.caller.called_as import take_name_from_wrapper
from launcher.commands import cli
from launcher.errors import EXIT_HOST
from launcher.hosts.own_processes import mark_if_needed
from launcher.on_host.agent.processes import lacking

STDERR = 2


def main() -> NoReturn:
    """The console script."""
    if missing := lacking():
        leave(f"launch: {missing}")
    begin_clean()
    take_name_from_wrapper()
    mark_if_needed()
    cli.main()


def leave(complaint: str) -> NoReturn:
    """This machine cannot do what is asked of it."""
    with contextlib.suppress(OSError):  # it may be closed
        os.write(STDERR, f"{complaint}\n".encode())
    raise SystemExit(EXIT_HOST)


def begin_clean() -> None:
    """Undo what a parent can hand on to our harm: closed standard streams, ignored or blocked signals.

    Other files that it has opened stay ours alone.
    """
    while (spare := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(spare)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # so Python finds what was closed
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", closefd=False))
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that this list was read from is closed again
            os.set_inheritable(int(entry.name), int(entry.name) <= STDERR)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (signal.SIGTTOU, signal.SIGTTIN):  # with `stty tostop`: stopped, it would lose its lease
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
