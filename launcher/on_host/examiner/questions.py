"""A short program that the launcher finds something out by: it is talked to through pipes, and has its time."""

from __future__ import annotations

import os
import select
import signal
import time

from launcher.on_host.agent.processes import signal_tree
from launcher.on_host.agent.workers import created
from launcher.on_host.examiner.messages import ProgramEnded, ProgramSaid

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable

    from launcher.on_host.agent.messages import Event
    from launcher.on_host.examiner.messages import AskProgram

PIECE = 1 << 16
MOST = 1 << 20
"""Bytes that are taken of its stdout, and of its stderr; whoever writes more finds the pipe closed."""
LAST_WORDS = 1 << 13
"""Bytes of stderr that are told."""
GRACE = 0.5
"""Seconds between SIGTERM, when its time is over, and SIGKILL."""
STUCK = 2.0
"""Seconds after SIGKILL in which it has to be gone. What hangs in the kernel, on a dead disk, is not waited for."""
LADDER = ((signal.SIGTERM, GRACE), (signal.SIGKILL, STUCK))


class Question:
    """One program, from its start until it has ended or its time is over."""

    def __init__(self, asked: AskProgram, tell: Callable[[Event], None]) -> None:
        """Start it.

        Raises:
            StartError: there is no such program, no such directory...
        """
        self._tell = tell
        self._to_say = b""
        self._complaint = b""
        stdin, self._stdin = os.pipe()
        self._stdout, stdout = os.pipe()
        self._stderr, stderr = os.pipe()
        try:
            self.pid = created(asked, (stdin, stdout, stderr))
        except BaseException:
            self._close(self._stdin, self._stdout, self._stderr)
            raise
        finally:
            self._close(stdin, stdout, stderr)
        self._room = {self._stdout: MOST, self._stderr: MOST}
        self._talking = True
        """Its stdin is open."""
        self._all_said = False
        """Nothing more will come for it."""
        for fd in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(fd, False)
        self._rungs = list(LADDER)
        self.due = time.monotonic() + asked.seconds
        """When something has to be done about its time."""

    @property
    def events(self) -> dict[int, int]:
        """What to wait for at which of its pipes."""
        reading = dict.fromkeys(self._room, select.POLLIN)
        return {**reading, self._stdin: select.POLLOUT} if self._talking and self._to_say else reading

    def say(self, data: bytes, last: bool) -> None:
        """Put this on its stdin; close that if it was the last."""
        self._to_say += data
        self._all_said |= last
        if self._talking:
            self._write()

    def proceed(self, fd: int) -> None:
        """Something happened at one of its pipes."""
        if fd == self._stdin:
            self._write()
        else:
            self._read(fd)

    def _write(self) -> None:
        try:
            self._to_say = self._to_say[os.write(self._stdin, self._to_say) :]
        except BlockingIOError:
            return
        except OSError:  # it does not listen any more
            self._to_say, self._all_said = b"", True
        if self._all_said and not self._to_say:
            self._talking = False
            self._close(self._stdin)

    def _read(self, fd: int) -> bool:
        """Take what there is in a pipe now; whether there may be more."""
        try:
            data = os.read(fd, min(PIECE, self._room[fd]))
        except BlockingIOError:
            return False
        self._room[fd] -= len(data)
        if data and fd == self._stdout:
            self._tell(ProgramSaid(data))
        elif data:
            self._complaint = (self._complaint + data)[-LAST_WORDS:]
        if not data or not self._room[fd]:
            del self._room[fd]
            self._close(fd)
            return False
        return True

    def ended(self, status: int) -> None:
        """It has been reaped. What it left running may hold the pipes; nobody waits for that."""
        for fd in list(self._room):
            while self._read(fd):
                continue
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        self._finish(None if number else os.WEXITSTATUS(status), number)

    def keep_time(self, now: float) -> bool:
        """Stop it if its time is over; whether it has to be given up."""
        if now < self.due:
            return False
        if not self._rungs:
            self._finish(None, None)
            return True
        number, patience = self._rungs.pop(0)
        signal_tree(self.pid, number)
        self.due = now + patience
        return False

    def _finish(self, code: int | None, number: int | None) -> None:
        self._tell(ProgramEnded(len(self._rungs) == len(LADDER), code, number, self._complaint))
        self._close(*self._room, *([self._stdin] if self._talking else []))
        self._room, self._talking = {}, False

    @staticmethod
    def _close(*fds: int) -> None:
        for fd in fds:
            os.close(fd)
