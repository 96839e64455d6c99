"""`launch`, and `python -m launcher`."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` imports more
import posix


def end(number: int, _frame: object) -> None:
    """The handler of signals until a run installs its own. Nothing was started yet, so there is nothing to clean up.

    A KeyboardInterrupt would print a traceback, or be swallowed inside an import.
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

from launcher.caller.called_as import restore_name
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
    restore_name()
    mark_if_needed()
    cli.main()


def leave(complaint: str) -> NoReturn:
    """End the process: this machine lacks what the launcher needs."""
    with contextlib.suppress(OSError):  # it may be closed
        os.write(STDERR, f"{complaint}\n".encode())
    raise SystemExit(EXIT_HOST)


def begin_clean() -> None:
    """Undo what a parent process may pass on: closed standard streams, ignored or blocked signals.

    Other files that it left open are not inherited any further.
    """
    while (spare := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(spare)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # Python's value for a stream that was closed
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", closefd=False))
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of this listing itself
            os.set_inheritable(int(entry.name), int(entry.name) <= STDERR)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (
        signal.SIGTTOU,
        signal.SIGTTIN,
    ):  # after `stty tostop` they would suspend it
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
