"""`gathered.jsonl`: which files of the chief are here, as they were there. One JSON object a line, the last one counts.

A line is written before its file is put in place, so that no file of ours is ever taken for somebody else's.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from launcher.errors import LaunchError
from launcher.gathering.remote_files import RemoteFile
from launcher.on_host.agent.received import locked
from launcher.run_directory.whole_files import write_all, write_whole

PATIENCE = 60.0
"""Seconds that a run waits for a `launch collect` beside it."""
LOOK = 0.2
Result = TypeVar("Result")
SPARE_LINES = 1000
"""Lines that count no more, above which the file is written anew."""


class InUseError(Exception):
    """Another launcher gathers the same run at this moment."""


class Record:
    """The open record of one run; it keeps every other launcher out until it is closed."""

    def __init__(self, path: Path) -> None:
        """Open it, or make it.

        Raises:
            InUseError: another launcher has it.
            OSError: it cannot be opened, read or written.
        """
        self._path = path
        self._fd = _locked(path)
        self._files: dict[str, RemoteFile] = {}
        self.files: Mapping[str, RemoteFile] = MappingProxyType(self._files)
        """By path."""
        self._lines = 0
        try:
            self._read()
        except BaseException:
            os.close(self._fd)
            raise

    def put(self, file: RemoteFile) -> None:
        """Write down that a file is about to be put in place.

        Raises:
            OSError: it cannot be written down.
        """
        self._append(_line(file._asdict()))
        self._files[file.path] = file

    def drop(self, path: str) -> None:
        """Write down that a file has been removed.

        Raises:
            OSError: it cannot be written down.
        """
        self._append(_line({"path": path}))
        self._files.pop(path, None)

    def close(self) -> None:
        """Close it, so that another launcher can open it."""
        if self._lines > len(self._files) + SPARE_LINES:
            with contextlib.suppress(LaunchError):  # a full disk: the long file says the same
                write_whole(self._path, b"".join(_line(file._asdict()) for file in self._files.values()))
        os.close(self._fd)

    def _append(self, line: bytes) -> None:
        try:
            write_all(self._fd, line)
        except OSError as error:
            error.filename = str(self._path)
            raise
        self._lines += 1

    def _read(self) -> None:
        with open(self._fd, "rb", closefd=False) as file:
            for line in file:
                self._lines += 1
                self._note(line)
        if self._lines and not line.endswith(b"\n"):
            write_all(self._fd, b"\n")

    def _note(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            return  # the line that was being written when a disk was full, or when the power went
        match told:
            case {"path": str(path), "size": int(size), "mtime_ns": int(mtime_ns), "sha256": str(sha256)}:
                self._files[path] = RemoteFile(path, size, mtime_ns, sha256)
            case {"path": str(path), **others} if not others:
                self._files.pop(path, None)


def in_turn(step: Callable[[], Result], pause: Callable[[float], object]) -> Result:
    """Take a step that opens the record, once no other launcher has it open: `launch collect` works beside a run.

    `pause` waits for so many seconds, or raises what ends the waiting.

    Raises:
        InUseError: that takes too long.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return step()
        except InUseError:
            if time.monotonic() >= until:
                raise
        pause(LOOK)


def _line(told: Mapping[str, object]) -> bytes:
    """One line of the file. The path alone: the file is gone."""
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def _locked(path: Path) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not locked(fd):
            os.close(fd)
            raise InUseError
        if _is_file(fd, path):
            return fd
        os.close(fd)  # it was written anew since it was opened


def _is_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
