"""`events.jsonl`: what happened in a run, one JSON object a line."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from launcher.errors import LaunchError
from launcher.hosts.events import Event, as_record
from launcher.run_directory.whole_files import shown, write_all


class EventLog:
    """Appends to `events.jsonl`, whole lines only, each with wall time and monotonic time in seconds.

    A log that cannot be written (a full disk) must not end a training run: it is told once, and the log ends there.
    """

    def __init__(self, path: Path, complain: Callable[[str], None]) -> None:
        """Open the file, or make it; `complain` is told why no further events are written.

        Raises:
            LaunchError: it cannot be opened.
        """
        self._path = path
        self._complain = complain
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self._end_torn_line()
        except OSError as error:
            raise LaunchError(f"{shown(path)}: cannot be written: {error.strerror}.") from error

    def append(self, event: Event) -> None:
        if self._fd < 0:
            return
        record = {"time": time.time(), "monotonic": time.monotonic(), **as_record(event)}
        try:
            write_all(self._fd, json.dumps(record, separators=(",", ":")).encode() + b"\n")
        except OSError as error:
            self._complain(f"{shown(self._path)}: no further events are written: {error.strerror}.")
            with contextlib.suppress(OSError):  # the disk has just been told of
                self.close()

    def close(self) -> None:
        """Close the file; what is appended later is dropped.

        Raises:
            OSError: the disk did not take all of it.
        """
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _end_torn_line(self) -> None:
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            write_all(self._fd, b"\n")
