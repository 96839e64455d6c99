"""`launch`, and `python -m launcher`.

This machine's agent is started first: its Python boots while this one imports the rest.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` imports more

# Nothing is begun yet. A KeyboardInterrupt would show a traceback, or get lost inside an import.
_signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import sys

if sys.flags.no_site:  # scripts/launch: nothing is imported before the line above
    import site

    site.main()

import contextlib
import gc
import os
import signal

from launcher.caller.called_as import forget_wrapper
from launcher.hosts.head_start import ENDING, HeadStart, likely_agents
from launcher.hosts.own_processes import mark_if_needed
from launcher.on_host.agent.processes import lacking

if False:  # names for type checkers only: typing costs start-up time
    from types import FrameType
    from typing import NoReturn

STDERR = 2
GARBAGE = 50_000
"""New objects after which to look for garbage. What is imported is none: looking at 700, Python's own number, costs an
eighth of the time until a worker's first instruction."""


def main() -> NoReturn:
    """The console script."""
    gc.set_threshold(GARBAGE)
    if missing := lacking():
        leave(f"launch: {missing}")
    begin_clean()
    forget_wrapper()
    mark_if_needed()
    early = HeadStart()

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        """Until the run takes the signals over."""
        early.end()
        os._exit(128 + number)

    for number in ENDING:
        signal.signal(number, end)
    early.begin(likely_agents(sys.argv[1:]))
    try:
        from launcher.commands.cli import main

        main(early)
    finally:
        early.end()
        gc.freeze()  # Python looks for garbage once more when it ends, and then everything is some


def leave(complaint: str) -> NoReturn:
    """This machine cannot do what is asked of it."""
    from launcher.errors import EXIT_HOST  # brings in more than a start that goes well needs so early

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
    for fd in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - importing pathlib takes longer than all of this
        with contextlib.suppress(OSError):  # the one that this list was read from is closed again
            os.set_inheritable(fd, fd <= STDERR)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (signal.SIGTTOU, signal.SIGTTIN):  # with `stty tostop`: stopped, it would lose its lease
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
