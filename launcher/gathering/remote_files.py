"""The files that an agent lists, checked: no path leads out of the directory that was asked about. Pure.

A host may be broken or hostile. A file with an impossible size, time or name stays there; an impossible list is refused
as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from launcher.gathering.state_file import is_state
from launcher.on_host.agent.files import EVERYTHING
from launcher.on_host.agent.messages import FilesListed
from launcher.wording import harmless_line

MOST_FILES = 500_000
"""Files, links and what cannot be read in one list: 200 MB of memory here."""
MOST_CHARACTERS = 1 << 26
"""Of all names in a list."""
LONGEST_PATH, LONGEST_NAME = 4095, 255
"""Bytes of a path, and of each part of it: the kernel takes no longer ones."""
LARGEST_SIZE = (1 << 63) - 1
"""Bytes of a file: an `off_t`."""
FARTHEST_TIME = 1 << 68
"""Nanoseconds from 1970, back or ahead: 9000 years, which is more than any file system keeps."""
NO_TIME = "the host says that it was written at a time that cannot be"
LONGEST_REASON = 200
"""Characters."""


class RefusedError(Exception):
    """A host tells what cannot be true, or sends what nobody asked for; the message says what."""


class RemoteFile(NamedTuple):
    """A regular file on a host."""

    path: str
    """Below the directory that was asked about; bytes that are no UTF-8 are surrogates."""
    size: int
    """Bytes."""
    mtime_ns: int
    """By the clock of the host."""
    sha256: str = ""
    """Of its content, once that has come: a list does not tell it."""

    @property
    def stamp(self) -> tuple[int, int]:
        """What a file that has changed does not keep: its size and its time."""
        return self.size, self.mtime_ns

    @property
    def directory(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_state(self) -> bool:
        """TensorFlow's `checkpoint`, which names the newest one."""
        return is_state(self.name, self.size)


@dataclass(slots=True)
class Listing:
    """Every file below some names of a directory on a host."""

    files: dict[str, RemoteFile] = field(default_factory=dict)
    """By path."""
    left: dict[str, str] = field(default_factory=dict)
    """What is there and cannot be sent: path -> reason."""
    clock_ns: int = 0
    """The host's time when the list ended."""

    _entries: int = 0
    _characters: int = 0

    def add(self, part: FilesListed, names: Sequence[str]) -> None:
        """Add one part of a list by an agent that was asked for these names.

        Raises:
            RefusedError: the list is longer than any that is taken.
        """
        for entry in part.files:
            self._add_file(RemoteFile(*entry), names)
        for path in part.links:
            self._leave(path, "it is a symbolic link")
        for path, reason in part.unreadable:
            self._leave(path, reason)

    def end(self, clock_ns: int) -> None:
        """The list is complete. A file that lies below another file, as on no disk, is not taken.

        Raises:
            RefusedError: the host's clock shows no time.
        """
        if not is_time(clock_ns):
            raise RefusedError("its clock shows a time that cannot be")
        self.clock_ns = clock_ns
        above = None
        for path in sorted(self.files, key=lambda path: path.replace("/", "\0")):
            if above is not None and path.startswith(f"{above}/"):
                del self.files[path]
                self.left[path] = f"the host says that {readable(above)} is a file"
            else:
                above = path

    def _add_file(self, file: RemoteFile, names: Sequence[str]) -> None:
        objection = _objection(file, names)
        if objection is None:
            self._count(file.path)
            self.files[file.path] = file
        else:
            self._leave(file.path, objection)

    def _leave(self, path: str, reason: str) -> None:
        self._count(path)
        self.left[path if len(path) <= LONGEST_PATH else readable(path)] = readable(reason)

    def _count(self, path: str) -> None:
        self._entries += 1
        self._characters += len(path)
        if self._entries > MOST_FILES or self._characters > MOST_CHARACTERS:
            raise RefusedError(f"it lists more than {MOST_FILES} files in one directory, or names that are too long")

    def age(self, file: RemoteFile) -> float:
        """Seconds since a file was written to, when the list ended; negative: its time lies in the future."""
        return (self.clock_ns - file.mtime_ns) / 1e9


def _objection(file: RemoteFile, names: Sequence[str]) -> str | None:
    """Why a file cannot be taken for what the host says that it is."""
    if not is_below(file.path, names):
        return "the host names a file that was not asked for"
    try:
        path = file.path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "its name is none that a file can have"
    if len(path) > LONGEST_PATH or max(map(len, path.split(b"/"))) > LONGEST_NAME:
        return "here, its name cannot be used: File name too long"
    if not 0 <= file.size <= LARGEST_SIZE:
        return "the host says that it has a size that no file has"
    return None if is_time(file.mtime_ns) else NO_TIME


def is_time(nanoseconds: int) -> bool:
    """Whether a file can have been written then, or a clock show that."""
    return abs(nanoseconds) <= FARTHEST_TIME


def readable(text: str) -> str:
    """Text of a host for a line here: without control characters, and cut to a readable length."""
    return harmless_line(text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}...")


def is_below(path: str, names: Iterable[str]) -> bool:
    """Whether a path leads to one of the names or below it, by no detour."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return False
    return any(name == EVERYTHING or parts[: name.count("/") + 1] == name.split("/") for name in names)


def plain_names(names: Iterable[str]) -> tuple[str, ...]:
    """Relative paths without what means nothing: `./a//b/` -> `a/b`. Each once."""
    return tuple(dict.fromkeys(str(PurePosixPath(name)) for name in names))
