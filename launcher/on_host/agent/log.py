"""A worker's log, as the launcher gets it: a stream that only grows, whatever the worker does to the file."""

from __future__ import annotations

import os

WINDOW = 1 << 20
"""Bytes of a worker's log that may be on their way to the console. A slow reader makes the log wait, not the worker."""
CHUNK = 1 << 18
"""Bytes of a log sent in one frame."""
TAIL = 1 << 15
"""Bytes of a log's end that go with the news of a worker's exit."""
FAR = 1 << 22
"""Bytes before that in which the traceback is looked for whose message is longer: a printed array."""
TRACEBACK = b"Traceback (most recent call last):"
KNOWN = 64
"""Bytes before where a log is read next: if they have become others, it was truncated and has grown as long again."""
TRUNCATED = b"launch: the worker has truncated its log; it goes on here\n"
"""Stands in the stream where what comes next is at the beginning of the file again."""


class Log:
    """The file that a worker's stdout and stderr go to, and how much of it has been told."""

    def __init__(self, fd: int, begin: int) -> None:
        """The file, open to be read. `begin`: the bytes that an earlier process of the task has left there."""
        self._fd = fd
        self._begin = begin
        """Where this process's own output begins in the file."""
        self._at = begin
        """Where in the file what comes next begins."""
        self._last = b""
        """The last bytes before that, as they were told."""
        self._shipped = self._acknowledged = begin
        """Of the stream."""
        self._ends_line = True

    @property
    def file(self) -> tuple[int, int]:
        """Which file it is, by whatever name."""
        found = os.fstat(self._fd)
        return found.st_dev, found.st_ino

    @property
    def told(self) -> int:
        """How long the stream is by now."""
        return self._shipped

    def go_on_at(self, told: int) -> None:
        """So much of the stream was told when nobody wrote to the file; it may have been truncated before."""
        self._shipped = self._acknowledged = told

    def go_on_after(self, former: Log) -> None:
        """Tell the rest of what the task's earlier process wrote."""
        self._at, self._last, self._ends_line = former._at, former._last, former._ends_line
        self._shipped, self._acknowledged = former._shipped, former._acknowledged
        former.close()

    @property
    def size(self) -> int:
        """Of the file."""
        return os.fstat(self._fd).st_size

    def disk_is_full(self) -> bool:
        """Whether its file system has no room for another byte of this user's."""
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
        """The console has dealt with so many more bytes."""
        self._acknowledged += count

    def next_chunk(self) -> tuple[int, bytes]:
        """The next bytes, within the window, and where in the stream they stand."""
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
        """The end of what this process has logged, behind the beginning of the traceback that ends there."""
        size = self.size
        begin = 0 if self._was_truncated else self._begin  # that may have been just now
        start = max(begin, size - TAIL)
        last = os.pread(self._fd, TAIL, start)
        if start == begin or TRACEBACK in last:
            return last
        far = max(begin, start - FAR)
        before = os.pread(self._fd, start - far, far)
        found = before.rfind(TRACEBACK)
        return last if found < 0 else with_traceback(before[found:], last)

    def close(self) -> None:
        """Nothing more is told."""
        os.close(self._fd)


def with_traceback(traceback: bytes, last: bytes) -> bytes:
    """The beginning of a traceback and the end of the log, if all that is left out is its message.

    A message goes on in lines that do not begin with a letter; what a program prints after a traceback does, mostly.
    """
    begin, rest = traceback[: TAIL // 2], traceback[TAIL // 2 :]
    went_on = any(line[:1].isalpha() for line in rest.split(b"\n")[1:])
    return last if went_on else begin.rpartition(b"\n")[0] + b"\n" + last[-TAIL // 2 :].partition(b"\n")[2]
