"""The newest line of the file that `LAUNCH_PROGRESS` names, whatever a program does to that file."""

from __future__ import annotations

import os
import stat

TAIL = 1 << 16
"""Bytes at the file's end that are searched for the newest line."""
LONGEST = 1 << 12
"""Bytes of a line; a longer one is ignored."""


class Reports:
    """The reports of one worker. Only a regular file is opened: a pipe could block the agent, a device do anything."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        """The file's identity when it was last read."""
        self._at = 0
        """The offset of the first line that was not read."""
        self.count = 0
        """Bytes of reports so far, which only grow; 0 if there was none."""

    def newest(self) -> bytes:
        """The last complete line since the last call, if any. A long file takes no longer than a short one."""
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
        """Whether the file no longer starts with what was read."""
        return size <= self._at or (self._at > 0 and os.pread(fd, 1, self._at - 1) != b"\n")


def identity(found: os.stat_result) -> tuple[int, ...]:
    """Changes if the file is replaced or written to."""
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns
