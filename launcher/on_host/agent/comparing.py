"""What of a project is there already, what is missing, and what of the user's stands in the way. Changes nothing."""

from __future__ import annotations

import os
import stat

from launcher.on_host.agent.received import Received, link_target, look_at, parents, place

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator
    from typing import Any

HERE, WANTED, DOUBTFUL = "here", "wanted", "doubtful"
"""What is to be done about a file: nothing, send it, compare its contents."""
HASHED_AT_ONCE = 1 << 20
"""Bytes."""


class InTheWayError(Exception):
    """Something of the user's stands where a file must go; the message says what."""


class Comparison:
    """A project (`files`, as `Receiving` gets them) beside a directory."""

    def __init__(self, top: bytes, files: list[tuple[Any, ...]], received: Received) -> None:
        self._top = top
        self._received = received
        self._coming = {file[0] for file in files}
        self._ways: dict[str, str] = {}
        """Directories that were looked at -> what stands there instead, or nothing."""

    def verdict(self, file: tuple[Any, ...]) -> str:
        """What is to be done about one file or link.

        Raises:
            InTheWayError: it must not be put there.
        """
        path = file[0]
        self._check_way(path)
        found = look_at(self._top, path)
        if found is None:
            return WANTED
        if len(file) == 2:
            return self._link(path, file[1], found)
        size, mtime_ns = file[1:3]
        if not stat.S_ISREG(found.st_mode):
            return self._replaced(path, found)
        if self._received.is_current(path, size, mtime_ns, found):
            return HERE
        return DOUBTFUL if found.st_size == size else self._replaced(path, found)

    def objection(self, path: str, found: os.stat_result) -> str:
        """Why what was found at a path must not be replaced; nothing if it may be."""
        if self._received.is_unchanged(self._top, path, found):
            return ""
        if path in self._received.paths():
            return "was changed there since it was sent"
        return f"is {'a file that differs' if stat.S_ISREG(found.st_mode) else kind(found)} there"

    def _link(self, path: str, target: str, found: os.stat_result) -> str:
        if stat.S_ISLNK(found.st_mode) and link_target(self._top, path) == target:
            return HERE
        return self._replaced(path, found)

    def _replaced(self, path: str, found: os.stat_result) -> str:
        if stat.S_ISDIR(found.st_mode):
            if self._goes_away(path):
                return WANTED
            raise InTheWayError("is a directory there")
        objection = self.objection(path, found)
        if objection:
            raise InTheWayError(objection)
        return WANTED

    def _goes_away(self, directory: str) -> bool:
        """Whether a directory was made by us and holds nothing but what will be deleted."""
        if directory not in self._received.directories:
            return False
        return all(self._is_leaving(f"{directory}/{name}") for name in names_in(place(self._top, directory)))

    def _is_leaving(self, path: str) -> bool:
        found = look_at(self._top, path)
        if found is not None and stat.S_ISDIR(found.st_mode):
            return self._goes_away(path)
        return found is not None and path not in self._coming and not self.objection(path, found)

    def _check_way(self, path: str) -> None:
        """Every directory on the way must be one, or be missing. A link to one leads to a place that is not ours."""
        for directory in parents(path):
            if directory not in self._ways:
                found = look_at(self._top, directory)
                blocked = found is not None and not stat.S_ISDIR(found.st_mode) and not self._is_leaving(directory)
                self._ways[directory] = kind(found) if found is not None and blocked else ""
            if self._ways[directory]:
                raise InTheWayError(f"cannot be put there: {directory} is {self._ways[directory]}")


def kind(found: os.stat_result) -> str:
    if stat.S_ISREG(found.st_mode):
        return "a file"
    if stat.S_ISDIR(found.st_mode):
        return "a directory"
    return "a symbolic link" if stat.S_ISLNK(found.st_mode) else "neither a file nor a directory"


def names_in(directory: bytes) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in os.listdir(directory)]


def hashing(path: bytes, digests: list[str]) -> Iterator[float]:
    """Append a file's SHA-256 to `digests`, in steps."""
    import hashlib

    digest = hashlib.sha256()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        while True:
            data = file.read(HASHED_AT_ONCE)
            if not data:
                break
            digest.update(data)
            yield 0.0
    digests.append(digest.hexdigest())
