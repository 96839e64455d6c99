"""What an agent tells of its files, as values; nothing that it names may lead anywhere else. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from launcher.agent.files import EVERYTHING


class RemoteFile(NamedTuple):
    """A regular file on a host."""

    path: str
    """Below the directory that was asked about; bytes that are no UTF-8 are surrogates."""
    size: int
    """Bytes."""
    mtime_ns: int
    """By the clock of the host."""

    @property
    def directory(self) -> str:
        """The path of the directory that it lies in."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(slots=True)
class Listing:
    """Every file below some names of a directory on a host."""

    files: dict[str, RemoteFile] = field(default_factory=dict)
    """By path."""
    left: dict[str, str] = field(default_factory=dict)
    """What is there and cannot be sent: path -> reason."""
    clock_ns: int = 0
    """The host's time when the list ended."""

    def take(self, told: Mapping[str, Any], names: Sequence[str]) -> None:
        """Add one part of a list by an agent that was asked for these names."""
        for path, size, mtime_ns in told["files"]:
            if is_below(path, names):
                self.files[path] = RemoteFile(path, size, mtime_ns)
            else:
                self.left[path] = "the host names a file that was not asked for"
        self.left.update((path, "it is a symbolic link") for path in told["links"])
        self.left.update((path, reason) for path, reason in told["unreadable"])

    def age(self, file: RemoteFile) -> float:
        """Seconds since a file was written to, when the list ended; negative: its time lies in the future."""
        return (self.clock_ns - file.mtime_ns) / 1e9


def is_below(path: str, names: Iterable[str]) -> bool:
    """Whether a path leads to one of the names or below it, by no detour."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return False
    return any(name == EVERYTHING or parts[: name.count("/") + 1] == name.split("/") for name in names)


def plain_names(names: Iterable[str]) -> tuple[str, ...]:
    """Relative paths without what means nothing: `./a//b/` -> `a/b`. Each once."""
    return tuple(dict.fromkeys(str(PurePosixPath(name)) for name in names))
