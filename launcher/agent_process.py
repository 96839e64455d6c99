"""An agent's process, seen from outside: started, sent its program, written to, read from, ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import threading

from launcher.child import Child
from launcher.transport import AGENT, SSH, opening

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Sequence

PIPE_SIZE = 1 << 20
"""Bytes; the kernel's default of 64 KiB would cost a switch of processes for every chunk of log."""
SSH_STDIN_SIZE = 1 << 19
"""Bytes. ssh reads nothing until it is connected, and the agent's program must fit in without waiting for that."""
SSH_STDOUT_SIZE = 1 << 18
"""Bytes. With 1 MiB a pipe, 32 hosts would use up what the kernel lends to an ordinary user (pipe(7))."""
READ_SIZE = 1 << 20
LAST_WORDS = 8192
"""Bytes of its stderr that are read when it has ended."""
GOODBYE = 2.0
"""Seconds that an agent and its guard get to end once their work is done."""


class AgentProcess:
    """Thread-safe for writing; one thread may read."""

    def __init__(self, argv: Sequence[str]) -> None:
        """Start `argv`, which runs `transport.FIRST_WORDS` and waits for its program."""
        self._writing = threading.RLock()  # a signal handler may end what it has interrupted in the middle of a write
        self._complaint = os.memfd_create("agent-stderr")
        (its_stdin, stdin), (stdout, its_stdout) = os.pipe(), os.pipe()
        self._stdin, self._stdout = os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb", 0)
        try:
            # A session of its own: a Ctrl-C at the terminal is the launcher's to pass on, not the agent's to die of.
            self._child = Child(argv, (its_stdin, its_stdout, self._complaint))
        except OSError:
            self._close_pipes()
            raise
        finally:
            os.close(its_stdin)
            os.close(its_stdout)
        os.set_blocking(self._stdin.fileno(), False)
        sizes = (SSH_STDIN_SIZE, SSH_STDOUT_SIZE) if argv[0] == SSH else (PIPE_SIZE, PIPE_SIZE)
        for pipe, size in zip((self._stdin, self._stdout), sizes, strict=True):
            with contextlib.suppress(OSError):  # above the user's pipe quota: slower, not wrong
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)

    def send_program(self, packages: Sequence[str] = AGENT) -> None:
        """Make it an agent."""
        self.write(opening(packages))

    def write(self, data: bytes) -> None:
        """Send all of `data`, however long that takes. An agent that has gone takes nothing; who reads sees its end."""
        view = memoryview(data)
        with self._writing, contextlib.suppress(OSError, ValueError):
            while view:
                try:
                    view = view[os.write(self._stdin.fileno(), view) :]
                except BlockingIOError:
                    _await(self._stdin.fileno(), select.POLLOUT)

    def offer(self, data: bytes | bytearray) -> int:
        """Send as much of `data` as goes without waiting; how many bytes that was."""
        with self._writing:
            try:
                return os.write(self._stdin.fileno(), data)
            except BlockingIOError:
                return 0
            except (OSError, ValueError):
                return len(data)  # it has gone, as above

    def speaks_within(self, seconds: float) -> bool:
        """Whether it has sent something, or ended, by then; `read` waits for nothing if so."""
        return _await(self._stdout.fileno(), select.POLLIN, seconds)

    def read(self) -> bytes:
        """What it sends next; nothing once it has closed its end."""
        return os.read(self._stdout.fileno(), READ_SIZE)

    def last_words(self) -> tuple[str, str]:
        """What it, its Python or its transport said on stderr, and how it ended. Waits for its end."""
        code = self._child.wait(GOODBYE)
        if code is None:
            how = "the agent closed the connection"
        else:
            end = f"signal {-code}" if code < 0 else f"exit code {code}"
            how = f"the connection closed, the agent ended with {end}"
        said = os.pread(self._complaint, LAST_WORDS, max(0, os.fstat(self._complaint).st_size - LAST_WORDS))
        return said.decode("utf-8", "replace"), how

    def kill(self) -> None:
        """End it without waiting. Over ssh this ends the connection, and the agent with it as soon as it notices."""
        self._child.send_signal(signal.SIGKILL)

    def hang_up(self) -> None:
        """Close its stdin: it stops whatever still runs, and ends."""
        with self._writing, contextlib.suppress(OSError):
            self._stdin.close()

    def end(self) -> None:
        """Hang up, and return once it has ended. Once more does nothing."""
        self.hang_up()
        for last_resort in (signal.SIGTERM, signal.SIGKILL):
            if self._child.wait(GOODBYE) is not None:
                return
            self._child.send_signal(last_resort)
        self._child.wait()

    def close(self) -> None:
        """End it, and forget it."""
        self.end()
        self._close_pipes()

    def _close_pipes(self) -> None:
        if not self._stdout.closed:
            self._stdin.close()
            self._stdout.close()
            os.close(self._complaint)


def _await(fd: int, what: int, seconds: float | None = None) -> bool:
    """Wait until an open file can be read or written, or its other end has gone; whether it came to that in time."""
    waiting = select.poll()
    waiting.register(fd, what)
    return bool(waiting.poll(None if seconds is None else max(0.0, seconds) * 1000))
