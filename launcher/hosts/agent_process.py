"""An agent's process as the launcher has it: a child with pipes, which is ssh for another host."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import select
import subprocess
import time
from collections.abc import Sequence

from launcher.hosts.outbox import Outbox
from launcher.hosts.transport import AGENT, SSH, opening

PIPE_SIZE = 1 << 20
"""Bytes. The kernel's default of 64 KiB would cost a context switch for every chunk of log."""
SSH_STDIN_SIZE = 1 << 19
"""Bytes. ssh reads nothing until it is connected. With this size the agent's whole program is in the pipe by then."""
SSH_STDOUT_SIZE = 1 << 18
"""Bytes. With 1 MiB a pipe, 32 hosts would exceed what an ordinary user may have in pipes (pipe(7))."""
READ_SIZE = 1 << 20
COMPLAINT_SIZE = 1 << 20
"""Bytes of its stderr that are kept; writes beyond that fail."""
LAST_WORDS = 8192
"""Bytes at the end of its stderr that are read after its end."""
GOODBYE = 2.0
"""Seconds that an agent and its guard get to exit once their work is done."""


class AgentProcess:
    """One thread reads; any thread may use the outbox. Only `last_words`, `end` and `close` block, and not for long."""

    def __init__(self, argv: Sequence[str]) -> None:
        """Start `argv`, which runs `transport.FIRST_WORDS` and waits for the agent's program."""
        self._complaint = bounded_file("agent-stderr", COMPLAINT_SIZE)
        (its_stdin, stdin), (self._stdout, its_stdout) = os.pipe(), os.pipe()
        self.outbox = Outbox(stdin)
        self._open = True
        try:
            # A session of its own: Ctrl-C at the terminal must reach the launcher alone, which then stops the run.
            self._child = subprocess.Popen(
                argv, stdin=its_stdin, stdout=its_stdout, stderr=self._complaint, start_new_session=True
            )
        except OSError:
            self._close_files()
            raise
        finally:
            os.close(its_stdin)
            os.close(its_stdout)
        os.set_blocking(self._stdout, False)
        sizes = (SSH_STDIN_SIZE, SSH_STDOUT_SIZE) if argv[0] == SSH else (PIPE_SIZE, PIPE_SIZE)
        for pipe, size in zip((stdin, self._stdout), sizes, strict=True):
            with contextlib.suppress(OSError):  # over the user's pipe quota: slower, but correct
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)

    @property
    def pid(self) -> int:
        """Of the agent here, or of ssh."""
        return self._child.pid

    def send_program(self, packages: Sequence[str] = AGENT) -> None:
        """Send the agent's program. What the pipe does not take at once stays in the outbox."""
        self.outbox.add(opening(packages))
        self.outbox.push()

    def read(self, wake: int, until: float = math.inf) -> bytes | None:
        """The next bytes; empty at their end; None once `wake` is readable or `until` (monotonic) has come.

        Writes what waits in the outbox meanwhile.
        """
        while True:
            self.outbox.push()
            with contextlib.suppress(BlockingIOError):
                return os.read(self._stdout, READ_SIZE)
            ready = self._await_change(wake, until - time.monotonic())
            if wake in ready or not ready:
                return None

    def _await_change(self, wake: int, seconds: float) -> set[int]:
        """Descriptors that are ready; none if the time is over."""
        waiting = select.poll()
        for fd in (self._stdout, wake):
            waiting.register(fd, select.POLLIN)
        room = self.outbox.pipe
        if room is not None:
            waiting.register(room, select.POLLOUT)
        return {fd for fd, _ in waiting.poll(None if seconds == math.inf else max(0.0, seconds) * 1000)}

    def last_words(self) -> tuple[str, str]:
        """What the agent, its Python or ssh wrote to stderr, and how the process ended. Waits for its end."""
        code = self._exit_code(GOODBYE)
        if code is None:
            how = "the agent closed the connection"
        else:
            end = f"signal {-code}" if code < 0 else f"exit code {code}"
            how = f"the connection closed, the agent ended with {end}"
        said = os.lseek(
            self._complaint, 0, os.SEEK_CUR
        )  # the child writes through the same open file, so this is where it got to
        start = max(0, said - LAST_WORDS)
        last = os.pread(self._complaint, said - start, start)  # from there on the file is all zeros
        return last.decode("utf-8", "replace"), how

    def kill(self) -> None:
        """Kill it without waiting. With ssh this cuts the connection, and the agent ends as soon as it notices."""
        self._child.kill()

    def hang_up(self) -> None:
        """Close its stdin: the agent stops whatever still runs, and exits."""
        self.outbox.close()

    def end(self, patience: float = GOODBYE) -> None:
        """Hang up and wait for its end: `patience` seconds, then again after SIGTERM and after SIGKILL.

        A process that hangs in the kernel (on a dead disk) is left alone after that.
        """
        self.hang_up()
        for last_resort in (self._child.terminate, self._child.kill):
            if self._exit_code(patience) is not None:
                return
            last_resort()
            patience = GOODBYE
        self._exit_code(patience)

    def _exit_code(self, patience: float) -> int | None:
        """As `subprocess` has it; None if the process still runs after so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(patience)
        return self._child.returncode

    def close(self, patience: float = GOODBYE) -> None:
        """End it and release its files. A second call does nothing."""
        self.end(patience)
        self._close_files()

    def _close_files(self) -> None:
        self.outbox.close()
        if self._open:
            self._open = False
            os.close(self._stdout)
            os.close(self._complaint)


def bounded_file(name: str, size: int) -> int:
    """A file in memory that can never grow beyond so many bytes, whichever process writes to it."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)  # sparse: takes up no memory yet
    with contextlib.suppress(OSError):  # a kernel without seals
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return fd
