"""A program that the launcher finds something out by: it is talked to through pipes until it ends."""

from __future__ import annotations

import os
import select

from launcher.on_host.agent.jobs import Job
from launcher.on_host.agent.messages import AskProgram, ProgramEnded, ProgramNotRun, ProgramSaid, TellProgram
from launcher.on_host.agent.workers import StartError, created

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable

    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.messages import Event

PIECE = 1 << 16
MOST = 1 << 20
"""Bytes that are taken of its stdout, and of its stderr; a program that writes more finds the pipe closed."""
LAST_WORDS = 1 << 13
"""Bytes of stderr that are told."""


class Programs(Job):
    """All of them, by name."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._programs: dict[str, AskedProgram] = {}

    def handlers(self) -> Handlers:
        return {AskProgram: self._ask, TellProgram: self._say}

    def _ask(self, asked: AskProgram) -> None:
        try:
            self._programs[asked.name] = AskedProgram(asked, self._tell)
        except StartError as error:
            self._tell(ProgramNotRun(asked.name, str(error)))

    def _say(self, asked: TellProgram) -> None:
        if asked.name in self._programs:
            self._programs[asked.name].say(asked.said, asked.last)

    @property
    def polled(self) -> dict[int, int]:
        return {fd: wanted for each in self._programs.values() for fd, wanted in each.polled.items()}

    def on_ready(self, fd: int) -> None:
        for each in self._programs.values():
            if fd in each.polled:
                each.on_ready(fd)

    def child_ended(self, pid: int, status: int) -> None:
        for name, program in list(self._programs.items()):
            if program.pid == pid:
                program.ended(status)
                del self._programs[name]


class AskedProgram:
    """One program. It has no time limit: the launcher waits as long as it likes, and it ends with the agent."""

    def __init__(self, asked: AskProgram, tell: Callable[[Event], None]) -> None:
        """Start it.

        Raises:
            StartError: there is no such program, no such directory...
        """
        self._name, self._tell = asked.name, tell
        (stdin, self._stdin), (self._stdout, stdout), (stderr_read, stderr) = (os.pipe() for _ in range(3))
        self._room = {self._stdout: MOST, stderr_read: MOST}
        """What may still be read at each pipe."""
        self._to_say, self._last_words = b"", b""
        self._listens, self._all_said = True, False
        try:
            self.pid = created(asked, (stdin, stdout, stderr))
        except BaseException:
            self._close(self._stdin, *self._room)
            raise
        finally:
            self._close(stdin, stdout, stderr)
        for fd in (self._stdin, *self._room):
            os.set_blocking(fd, False)
        self.say(asked.said, last=False)

    @property
    def polled(self) -> dict[int, int]:
        """What to wait for at which of its pipes."""
        reading = dict.fromkeys(self._room, select.POLLIN)
        return {**reading, self._stdin: select.POLLOUT} if self._listens and self._to_say else reading

    def say(self, data: bytes, last: bool) -> None:
        """Put this on its stdin; close that if it was the last."""
        self._to_say += data
        self._all_said |= last
        self._write()

    def on_ready(self, fd: int) -> None:
        """Something happened at one of its pipes."""
        if fd == self._stdin:
            self._write()
        else:
            self._read(fd)

    def _write(self) -> None:
        if not self._listens:
            return
        try:
            self._to_say = self._to_say[os.write(self._stdin, self._to_say) :]
        except BlockingIOError:
            return
        except OSError:  # it has closed its end
            self._to_say, self._all_said = b"", True
        if self._all_said and not self._to_say:
            self._listens = False
            self._close(self._stdin)

    def _read(self, fd: int) -> bool:
        """Take what there is in a pipe now; whether there may be more."""
        try:
            data = os.read(fd, min(PIECE, self._room[fd]))
        except BlockingIOError:
            return False
        self._room[fd] -= len(data)
        if data and fd == self._stdout:
            self._tell(ProgramSaid(self._name, data))
        elif data:
            self._last_words = (self._last_words + data)[-LAST_WORDS:]
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
        self._tell(ProgramEnded(self._name, None if number else os.WEXITSTATUS(status), number, self._last_words))
        self._close(*self._room, *([self._stdin] if self._listens else []))

    @staticmethod
    def _close(*fds: int) -> None:
        for fd in fds:
            os.close(fd)
