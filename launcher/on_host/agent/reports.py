"""The file that `LAUNCH_PROGRESS` names: the newest line of it, whatever a program has made of the file."""

from __future__ import annotations

import os
import stat

TAIL = 1 << 16
"""Bytes at the file's end in which the newest line is looked for."""
LONGEST = 1 << 12
"""Bytes of a line; what is longer is no report."""


class Reports:
    """Of one worker. Only a regular file is opened: a pipe or a device would have the agent wait, or act."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        """What the file was when it was read last."""
        self._at = 0
        """Where in the file the first line begins that has not been read."""
        self.count = 0
        """Bytes of reports so far. It only grows; 0: there has been no report."""

    def newest(self) -> bytes:
        """The last whole line that has come since the last look, or nothing. A look takes no longer for a long file."""
        try:
            if identity(os.lstat(self._path)) == self._seen:
                return b""
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            self._seen = None
            return b""
        try:
            return self._read(fd)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def _read(self, fd: int) -> bytes:
        found = os.fstat(fd)
        before, self._seen = self._seen, identity(found)
        if not stat.S_ISREG(found.st_mode):
            return b""
        if before is None or before[:2] != self._seen[:2] or self._was_rewritten(fd, found.st_size):
            self._at = 0
        start = max(self._at, found.st_size - TAIL)
        lines, newline, _ = os.pread(fd, TAIL, start).rpartition(b"\n")
        if not newline:
            return b""
        whole = start == self._at or b"\n" in lines
        self._at = start + len(lines) + 1
        self.count += len(lines) + 1
        newest = lines.rpartition(b"\n")[2]
        return newest if whole and len(newest) <= LONGEST else b""

    def _was_rewritten(self, fd: int, size: int) -> bool:
        """Whether what has been read is no longer the beginning of the file."""
        return size <= self._at or (self._at > 0 and os.pread(fd, 1, self._at - 1) != b"\n")


def identity(found: os.stat_result) -> tuple[int, ...]:
    """Differs where the file is another one, or was written to."""
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns
