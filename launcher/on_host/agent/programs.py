"""Programs that the launcher runs on a host for their output, such as the doctor's probe, through pipes."""

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
"""Bytes that are read from its stdout and from its stderr; then the pipe is closed."""
LAST_WORDS = 1 << 13
"""Bytes of its stderr that are reported at its end."""


class Programs(Job):
    """All such programs, by name."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._programs: dict[str, AskedProgram] = {}

    def handlers(self) -> Handlers:
        return {AskProgram: self._ask, TellProgram: self._write_stdin}

    def _ask(self, asked: AskProgram) -> None:
        try:
            self._programs[asked.name] = AskedProgram(asked, self._tell)
        except StartError as error:
            self._tell(ProgramNotRun(asked.name, str(error)))

    def _write_stdin(self, asked: TellProgram) -> None:
        if asked.name in self._programs:
            self._programs[asked.name].write_stdin(asked.said, asked.last)

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
    """One program. It has no time limit here: the launcher decides how long to wait, and it ends with the agent."""

    def __init__(self, asked: AskProgram, tell: Callable[[Event], None]) -> None:
        """Start it.

        Raises:
            StartError: there is no such program, no such directory...
        """
        self._name, self._tell = asked.name, tell
        (stdin, self._stdin), (self._stdout, stdout), (stderr_read, stderr) = (os.pipe() for _ in range(3))
        self._room = {self._stdout: MOST, stderr_read: MOST}
        """Bytes that may still be read from each pipe."""
        self._unwritten, self._last_words = b"", b""
        self._stdin_is_open, self._is_complete = True, False
        try:
            self.pid = created(asked, (stdin, stdout, stderr))
        except BaseException:
            self._close(self._stdin, *self._room)
            raise
        finally:
            self._close(stdin, stdout, stderr)
        for fd in (self._stdin, *self._room):
            os.set_blocking(fd, False)
        self.write_stdin(asked.said, last=False)

    @property
    def polled(self) -> dict[int, int]:
        """Its pipes, each with the events of poll(2) to wait for."""
        reading = dict.fromkeys(self._room, select.POLLIN)
        return {**reading, self._stdin: select.POLLOUT} if self._stdin_is_open and self._unwritten else reading

    def write_stdin(self, data: bytes, last: bool) -> None:
        """Write this to its stdin, and then close it if it was the last."""
        self._unwritten += data
        self._is_complete |= last
        self._write()

    def on_ready(self, fd: int) -> None:
        """One of its pipes is ready."""
        if fd == self._stdin:
            self._write()
        else:
            self._read(fd)

    def _write(self) -> None:
        if not self._stdin_is_open:
            return
        try:
            self._unwritten = self._unwritten[os.write(self._stdin, self._unwritten) :]
        except BlockingIOError:
            return
        except OSError:  # it has closed its stdin
            self._unwritten, self._is_complete = b"", True
        if self._is_complete and not self._unwritten:
            self._stdin_is_open = False
            self._close(self._stdin)

    def _read(self, fd: int) -> bool:
        """Read what is in a pipe now; return whether there may be more."""
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
        """It was reaped: report it. Processes that it left may still have its pipes open; they are not waited for."""
        for fd in list(self._room):
            while self._read(fd):
                continue
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        self._tell(ProgramEnded(self._name, None if number else os.WEXITSTATUS(status), number, self._last_words))
        self._close(*self._room, *([self._stdin] if self._stdin_is_open else []))

    @staticmethod
    def _close(*fds: int) -> None:
        for fd in fds:
            os.close(fd)
