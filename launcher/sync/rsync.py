"""rsync: it brings much over a connection of its own, and of a file that changed only the changes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from launcher.hosts.agent_process import COMPLAINT_SIZE, bounded_file
from launcher.on_host.agent.files import path_bytes
from launcher.on_host.agent.messages import ProjectFile
from launcher.on_host.agent.placing import STAGING

AT_ONCE = 8
"""Processes that run at a time; the others wait."""
GATE = threading.BoundedSemaphore(AT_ONCE)
_MOVED = re.compile(rb"\s*(\d+)\s+\d+%")
LONGEST = 300
"""Characters of what it says that are passed on."""
READ_SIZE = 1 << 12
SILENCE = 30
"""Seconds in which nothing moves, after which rsync ends; the rest comes without it. Its ssh may be let in and then
hear nothing: that one ends by itself only where the network or the machine is dead."""
STOPPING = 3.0
"""Seconds that it gets to end; what hangs in the kernel is left to itself."""


def rsync_on_this_machine() -> bool:
    return shutil.which("rsync") is not None


class Rsync:
    """It runs in the thread that asks for it; another thread may end it."""

    def __init__(self, host: str, ssh: Sequence[str], directory: Path) -> None:
        """Nothing runs yet.

        Args:
            host: its name.
            ssh: how it is reached, without its name.
            directory: what is sent from.
        """
        self._host = host
        self._ssh = ssh
        self._directory = directory
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def send(self, top: str, files: Iterable[ProjectFile], follow: Callable[[int], None]) -> str:
        """Send these files into a directory of the host; return why it failed, nothing if it did not.

        `follow` is told how many bytes have been sent.
        """
        names = b"".join(path_bytes(file.path) + b"\0" for file in files)
        with (
            GATE,
            os.fdopen(os.memfd_create("rsync-files"), "w+b") as listed,
            os.fdopen(bounded_file("rsync-stderr", COMPLAINT_SIZE), "r+b") as complaint,
        ):
            listed.write(names)
            listed.seek(0)
            try:
                process = self._started(top, listed.fileno(), complaint.fileno())
            except OSError as error:
                return f"{error.filename}: {error.strerror}"
            if process is None:
                return "it was stopped"
            with process:
                _follow(process, follow)
            length = os.lseek(complaint.fileno(), 0, os.SEEK_CUR)  # rsync and this process share the position
            said = os.pread(complaint.fileno(), length, 0).decode("utf-8", "replace").split("\n")
        lines = [line.strip() for line in said if line.strip()] or [f"exit code {process.returncode}"]
        return lines[0][:LONGEST] if process.returncode else ""

    def end(self) -> None:
        """Stop it if it still runs; it takes its unfinished files away, unless it hangs. Once more does nothing."""
        with self._lock:
            self._ended = True
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOPPING)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def _started(self, top: str, listed: int, complaint: int) -> subprocess.Popen[bytes] | None:
        argv = rsync_argv(self._host, self._ssh, f"{self._directory}/", top)
        with self._lock:
            if not self._ended:
                self._process = subprocess.Popen(
                    argv, stdin=listed, stdout=subprocess.PIPE, stderr=complaint, start_new_session=True, bufsize=0
                )
            return self._process


def _follow(process: subprocess.Popen[bytes], follow: Callable[[int], None]) -> None:
    assert process.stdout is not None
    while data := os.read(process.stdout.fileno(), READ_SIZE):
        for line in data.split(b"\r"):
            if moved := _MOVED.match(line):
                follow(int(moved[1]))


def rsync_argv(host: str, ssh: Sequence[str], source: str, top: str) -> list[str]:
    """The command; the files' names follow over stdin, each with a NUL behind it.

    All of them are sent (--ignore-times): the agent has found out what is missing, more carefully than rsync would.
    """
    options = [
        *("--times", "--perms", "--ignore-times", "--no-implied-dirs", "-s", "--from0", "--files-from=-"),
        f"--timeout={SILENCE}",
        *("--info=progress2", "--no-inc-recursive", "--no-human-readable", f"--temp-dir={STAGING}"),
        *("--rsh", rsh(ssh)),
    ]
    address = f"[{host}]" if ":" in host else host
    return ["rsync", *options, "--", source, f"{address}:{top}/"]


def rsh(ssh: Sequence[str]) -> str:
    """Words as rsync splits them (rsync(1), --rsh): in single quotes, where a quote stands for itself when doubled."""
    return " ".join("'" + word.replace("'", "''") + "'" for word in ssh)
