"""A process of this machine: started, waited for, killed.

As `subprocess` does it. Importing that takes as long as everything else that comes before the first ssh is started.
"""

from __future__ import annotations

import os
import signal
import threading
import time

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Sequence

IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""What is ignored stays so in another program."""
LOOK = 0.002
"""Seconds between two looks whether it has ended."""


class Child:
    """Thread-safe. A pid is never used once it may be another process's."""

    def __init__(self, argv: Sequence[str], streams: Sequence[int]) -> None:
        """Start `argv` in a session of its own, with these as stdin, stdout and stderr.

        Raises:
            OSError: there is no such program.
        """
        self._asking = threading.RLock()  # a signal handler may end what it has interrupted
        self._code: int | None = None
        self.pid = os.posix_spawnp(
            argv[0],
            tuple(argv),
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, stream, place) for place, stream in enumerate(streams)],
            setsid=True,
            setsigmask=(),
            setsigdef=IGNORED_BY_PYTHON,
        )

    @property
    def code(self) -> int | None:
        """Its exit code; negative: the number of the signal that ended it; None: it runs."""
        with self._asking:
            if self._code is None:
                try:
                    ended, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:  # somebody waits for all that this process has started
                    ended, status = self.pid, 0
                if ended:
                    self._code = os.waitstatus_to_exitcode(status)
            return self._code

    def wait(self, seconds: float = float("inf")) -> int | None:
        """Its exit code, once it has ended; None if that takes longer."""
        until = time.monotonic() + seconds
        while self.code is None and time.monotonic() < until:
            time.sleep(LOOK)
        return self.code

    def send_signal(self, number: int) -> None:
        """Signal it, if it runs."""
        with self._asking:
            if self.code is None:
                os.kill(self.pid, number)
