"""Writes the logs of workers on other hosts to files here, byte for byte, as they arrive."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from launcher.cluster.spec import Task
from launcher.run_directory.whole_files import shown, write_all_at


class RemoteLogs:
    """The log files of an attempt. One that cannot be written (a full disk) is reported once, and stays on its host."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        """`complain` is called with a message when a log can no longer be written."""
        self._complain = complain
        self._files: dict[Task, tuple[int, Path]] = {}

    def begin(self, paths: Mapping[Task, Path]) -> None:
        """An attempt starts. `paths`: the log files of its tasks on other hosts."""
        self.close()
        for task, path in paths.items():
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._files[task] = os.open(path, flags, 0o600), path
            except OSError as error:
                self._give_up(path, error)

    def write(self, task: Task, offset: int, data: bytes) -> None:
        """Write the next bytes of a task's log. Ignored for tasks of this machine: they write their own logs."""
        if task not in self._files:
            return
        fd, path = self._files[task]
        try:
            write_all_at(fd, data, offset)
        except OSError as error:
            del self._files[task]
            self._give_up(path, error)
            with contextlib.suppress(OSError):  # the disk's error was just reported
                os.close(fd)

    def close(self) -> None:
        while self._files:
            _, (fd, path) = self._files.popitem()
            try:
                os.close(fd)
            except OSError as error:  # a network disk may report only now that it is full
                self._give_up(path, error)

    def _give_up(self, path: Path, error: OSError) -> None:
        self._complain(f"{shown(path)}: this log is no longer written here, it goes on on its host: {error.strerror}.")
