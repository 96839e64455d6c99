"""An agent's process, seen from outside: started, sent its program, written to, read from, ended."""

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
"""Bytes; the kernel's default of 64 KiB would cost a switch of processes for every chunk of log."""
SSH_STDIN_SIZE = 1 << 19
"""Bytes. ssh reads nothing until it is connected; with the agent's program in the pipe it need not wait for us then."""
SSH_STDOUT_SIZE = 1 << 18
"""Bytes. With 1 MiB a pipe, 32 hosts would use up what the kernel lends to an ordinary user (pipe(7))."""
READ_SIZE = 1 << 20
COMPLAINT_SIZE = 1 << 20
"""Bytes of its stderr that are kept; what it writes there beyond them is refused."""
LAST_WORDS = 8192
"""Bytes of its stderr that are read when it has ended."""
GOODBYE = 2.0
"""Seconds that an agent and its guard get to end once their work is done."""


class AgentProcess:
    """One thread may read; the outbox is everybody's. Only `last_words`, `end` and `close` wait, and not for ever."""

    def __init__(self, argv: Sequence[str]) -> None:
        """Start `argv`, which runs `transport.FIRST_WORDS` and waits for its program."""
        self._complaint = bounded_file("agent-stderr", COMPLAINT_SIZE)
        (its_stdin, stdin), (self._stdout, its_stdout) = os.pipe(), os.pipe()
        self.outbox = Outbox(stdin)
        self._open = True
        try:
            # A session of its own: a Ctrl-C at the terminal is the launcher's to pass on, not the agent's to die of.
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
            with contextlib.suppress(OSError):  # above the user's pipe quota: slower, not wrong
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)

    @property
    def pid(self) -> int:
        """Of it, or of what leads to it."""
        return self._child.pid

    def send_program(self, packages: Sequence[str] = AGENT) -> None:
        """Make it an agent. What its pipe does not take at once is in the outbox."""
        self.outbox.add(opening(packages))
        self.outbox.push()

    def read(self, wake: int, until: float = math.inf) -> bytes | None:
        """What it sends next; nothing once it has closed its end. What waits in the outbox is written meanwhile.

        None: something can be read at `wake`, or the moment `until` (monotonic) has come.
        """
        while True:
            self.outbox.push()
            with contextlib.suppress(BlockingIOError):
                return os.read(self._stdout, READ_SIZE)
            ready = self._await_change(wake, until - time.monotonic())
            if wake in ready or not ready:
                return None

    def _await_change(self, wake: int, seconds: float) -> set[int]:
        """Descriptors at which something has happened; none: the time is over."""
        waiting = select.poll()
        for fd in (self._stdout, wake):
            waiting.register(fd, select.POLLIN)
        room = self.outbox.pipe
        if room is not None:
            waiting.register(room, select.POLLOUT)
        return {fd for fd, _ in waiting.poll(None if seconds == math.inf else max(0.0, seconds) * 1000)}

    def last_words(self) -> tuple[str, str]:
        """What it, its Python or its transport said on stderr, and how it ended. Waits for its end."""
        code = self._exit_code(GOODBYE)
        if code is None:
            how = "the agent closed the connection"
        else:
            end = f"signal {-code}" if code < 0 else f"exit code {code}"
            how = f"the connection closed, the agent ended with {end}"
        said = os.lseek(self._complaint, 0, os.SEEK_CUR)  # the process and this one share the position
        start = max(0, said - LAST_WORDS)
        last = os.pread(self._complaint, said - start, start)  # behind what was said the file is all zeros
        return last.decode("utf-8", "replace"), how

    def kill(self) -> None:
        """End it without waiting. Over ssh this ends the connection, and the agent with it as soon as it notices."""
        self._child.kill()

    def hang_up(self) -> None:
        """Close its stdin: it stops whatever still runs, and ends."""
        self.outbox.close()

    def end(self, patience: float = GOODBYE) -> None:
        """Hang up, and return once it has ended. It gets so many seconds to do that by itself.

        What hangs in the kernel (on a dead disk) is left to itself.
        """
        self.hang_up()
        for last_resort in (self._child.terminate, self._child.kill):
            if self._exit_code(patience) is not None:
                return
            last_resort()
            patience = GOODBYE
        self._exit_code(patience)

    def _exit_code(self, patience: float) -> int | None:
        """As `subprocess` tells it; None: it still runs after so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(patience)
        return self._child.returncode

    def close(self, patience: float = GOODBYE) -> None:
        """End it, and forget it. Once more does nothing."""
        self.end(patience)
        self._close_files()

    def _close_files(self) -> None:
        self.outbox.close()
        if self._open:
            self._open = False
            os.close(self._stdout)
            os.close(self._complaint)


def bounded_file(name: str, size: int) -> int:
    """A file in memory that takes so many bytes and no more, whoever writes them."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)  # it is all holes, and takes up no memory
    with contextlib.suppress(OSError):  # a kernel that knows no seals
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return fd
