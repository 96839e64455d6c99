"""The tiny workers that every launcher is measured with, and where they report to."""

from __future__ import annotations

import os
import queue
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes import Running

LAST = "closed"
LOOK = 0.2
"""Seconds without a report between two looks whether any can still come."""
LINE_LIMIT = 4096
"""Bytes; a FIFO takes a write of at most so many as a whole, so reports never mix."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker wrote into the FIFO, and when it arrived (`time.monotonic()`)."""

    at: float
    word: str
    pid: int


class Meeting:
    """Two FIFOs: workers report through one, and wait at the other until they are let go.

    Should this process die, both lose their other end, and every worker ends by itself.
    """

    def __init__(self, directory: Path, seen_in: Path | None = None) -> None:
        """`seen_in`: the directory as the workers know it, where that is not its name here."""
        self.directory = directory
        self._seen_in = seen_in or directory
        self._reports_path = directory / "reports"
        self._release_path = directory / "release"
        for path in (self._reports_path, self._release_path):
            os.mkfifo(path)
            path.chmod(0o666)  # workers on hosts are another user's
        # O_RDWR: no worker waits at opening its end, and none sees an end of file.
        self._reports_fd = os.open(self._reports_path, os.O_RDWR | os.O_CLOEXEC)
        self._release_fd = os.open(self._release_path, os.O_RDWR | os.O_CLOEXEC)
        self._arrived: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            data = os.read(self._reports_fd, LINE_LIMIT)
            now = time.monotonic()
            for line in data.decode().splitlines():
                word, pid = line.split()
                if word == LAST:
                    return
                self._arrived.put(Report(now, word, int(pid)))

    def worker(self, work: str = "", *, waits: bool = True) -> Path:
        """A program of /bin/sh: its first instruction reports `started`; then it works, or waits to be let go."""
        fifos = (self._reports_path, self._release_path)
        reports, release = (shlex.quote(str(self._seen_in / path.name)) for path in fifos)
        lines = ["#!/bin/sh", f"echo started $$ >{reports}"]
        if work:
            lines += [work, f"echo finished $$ >{reports}"]
        if waits:
            lines.append(f"read -r _ <{release}")
        path = self.directory / "worker"
        path.write_text("\n".join(lines) + "\n")
        path.chmod(0o755)
        return self._seen_in / path.name

    def await_reports(self, word: str, count: int, running: Running, seconds: float) -> list[Report]:
        """The next `count` reports that say `word`.

        Raises:
            BenchError: they did not come within `seconds`, or before the launcher ended.
        """
        deadline = time.monotonic() + seconds
        found: list[Report] = []
        while len(found) < count:
            over = time.monotonic() > deadline or running.process.poll() is not None
            try:
                report = self._arrived.get(timeout=LOOK)
            except queue.Empty:
                if over:
                    raise running.failed(f"{len(found)} of {count} workers {word}") from None
                continue
            if report.word == word:
                found.append(report)
        return found

    def release(self, count: int) -> None:
        """Let so many waiting workers end."""
        os.write(self._release_fd, b"\n" * count)

    def close(self) -> None:
        """End the reader."""
        os.write(self._reports_fd, f"{LAST} 0\n".encode())
        self._reader.join()
        os.close(self._reports_fd)
        os.close(self._release_fd)


@contextmanager
def meeting(directory: Path, seen_in: Path | None = None) -> Iterator[Meeting]:
    """A meeting of one run, in a fresh directory."""
    place = Meeting(directory, seen_in)
    try:
        yield place
    finally:
        place.close()
