"""A worker's log as the launcher gets it: a stream that only grows, even if the worker truncates the file."""

from __future__ import annotations

import os

WINDOW = 1 << 20
"""Bytes of a worker's log that may be sent ahead of the console. A slow reader delays the log, never the worker."""
CHUNK = 1 << 18
"""Bytes of a log sent in one frame."""
TAIL = 1 << 15
"""Bytes of a log's end that `Exited` carries."""
FAR = 1 << 22
"""Bytes before the tail that are searched for the start of a traceback with a long message, such as a printed array."""
TRACEBACK = b"Traceback (most recent call last):"
LEFT_OUT = b" ..."
"""Stands in a tail where a part of the log is left out, as it does where NumPy leaves out a part of an array."""
KNOWN = 64
"""Bytes before the read position that are remembered: if they change, the file was truncated and has grown again."""
TRUNCATED = b"launch: the worker has truncated its log; it goes on here\n"
"""Inserted into the stream where reading starts again at the beginning of the file."""


class Log:
    """The file that a worker's stdout and stderr go to, and how much of it was shipped."""

    def __init__(self, fd: int, begin: int) -> None:
        """`fd`: the file, open for reading. `begin`: the bytes in it of an earlier process of the task."""
        self._fd = fd
        self._begin = begin
        """Where this process's own output begins in the file."""
        self._at = begin
        """The read position in the file."""
        self._last = b""
        """The last bytes before it, as they were shipped."""
        self._shipped = self._acknowledged = begin
        """Bytes of the stream."""
        self._ends_line = True

    @property
    def file(self) -> tuple[int, int]:
        """The identity of the file, whatever its name."""
        found = os.fstat(self._fd)
        return found.st_dev, found.st_ino

    @property
    def shipped(self) -> int:
        """Bytes of the stream so far."""
        return self._shipped

    def go_on_at(self, shipped: int) -> None:
        """Continue a stream of which so many bytes were shipped; more than the file has, if that was truncated."""
        self._shipped = self._acknowledged = shipped

    def go_on_after(self, former: Log) -> None:
        """Continue the stream of the task's earlier process, whose output may not be shipped to its end."""
        self._at, self._last, self._ends_line = former._at, former._last, former._ends_line
        self._shipped, self._acknowledged = former._shipped, former._acknowledged
        former.close()

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._fd).st_size

    def disk_is_full(self) -> bool:
        """Whether its file system has no room left for this user."""
        disk = os.fstatvfs(self._fd)
        return (disk.f_bavail if os.geteuid() else disk.f_bfree) == 0

    @property
    def drained(self) -> bool:
        """Whether every byte has been shipped."""
        return self._at == self.size and not self._was_truncated

    @property
    def _was_truncated(self) -> bool:
        before = self._at - len(self._last)
        return self.size < self._at or os.pread(self._fd, len(self._last), before) != self._last

    def acknowledge(self, count: int) -> None:
        """The console has shown so many more bytes."""
        self._acknowledged += count

    def next_chunk(self) -> tuple[int, bytes]:
        """The next bytes, within the window, after their offset in the stream; no bytes if there are none now."""
        room = min(CHUNK, WINDOW - (self._shipped - self._acknowledged))
        data = self._next_bytes(room) if room > 0 else b""
        offset = self._shipped
        self._shipped += len(data)
        if data:
            self._ends_line = data.endswith(b"\n")
        return offset, data

    def _next_bytes(self, room: int) -> bytes:
        if self._was_truncated:
            self._at = self._begin = 0
            self._last = b""
            return TRUNCATED if self._ends_line else b"\n" + TRUNCATED
        data = os.pread(self._fd, room, self._at)
        self._at += len(data)
        self._last = (self._last + data[-KNOWN:])[-KNOWN:]
        return data

    def tail(self) -> bytes:
        """The end of what this process has logged, with the start of the traceback that ends there, if it is long."""
        size = self.size
        begin = 0 if self._was_truncated else self._begin  # perhaps just now
        start = max(begin, size - TAIL)
        last = os.pread(self._fd, TAIL, start)
        if start == begin:
            return last
        far = max(begin, start - FAR)
        before = b"" if TRACEBACK in last else os.pread(self._fd, start - far, far)
        found = before.rfind(TRACEBACK)
        shortened = None if found < 0 else without_middle(before[found:] + last)
        return shortened or LEFT_OUT + b"\n" + last

    def close(self) -> None:
        """Nothing more will be read."""
        os.close(self._fd)


def without_middle(traceback: bytes) -> bytes | None:
    """The start of a traceback joined to the end of the log; None if more than a part of its message would be left out.

    The further lines of a message (a printed array) mostly do not begin with a letter; what a program prints after a
    traceback mostly does.
    """
    half = TAIL // 2
    has_other_output = any(line[:1].isalpha() for line in traceback[half:-half].split(b"\n")[1:])
    return None if has_other_output else traceback[:half] + LEFT_OUT + b" " + traceback[-half:]
