"""What a directory of this host holds that came from the launching machine: a list in a file of that directory.

Only what stands there may be replaced or deleted, and only as long as nobody has changed it since. Everything else in
the directory belongs to the user.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat

from launcher.on_host.agent.incoming import write_all

if False:  # names for type checkers only: typing costs start-up time
    from typing import Any

RECORD = ".tf-launch-sync.json"
ROUGH_CLOCK = 2 * 10**9
"""Nanoseconds by which a file system may round a time of modification (FAT)."""


class Received:
    """The list: every file, link and directory that was put there."""

    def __init__(self, text: bytes = b"") -> None:
        try:
            known: dict[str, Any] = json.loads(text)
        except ValueError:  # none yet, or not ours any more; either way nothing there may be touched
            known = {}
        self.files: dict[str, list[int]] = known.get("files", {})
        """Path -> size, time of modification on the launching machine, and here."""
        self.found: list[str] = known.get("found", [])
        """Those of `files` that were here before, with the same contents: they are never deleted."""
        self.arriving: dict[str, list[int]] = known.get("arriving", {})
        """Path -> size, time of modification on the launching machine. Written down before anything is changed."""
        self.links: dict[str, str] = known.get("links", {})
        self.directories: list[str] = known.get("directories", [])

    def text(self) -> bytes:
        return json.dumps({"about": "what tf-launch has put here", **self.__dict__}, indent=1).encode()

    def paths(self) -> set[str]:
        return {*self.files, *self.arriving, *self.links}

    def forget(self, path: str) -> None:
        """It is not there any more, or belongs to the user now."""
        for known in (self.files, self.arriving, self.links):
            known.pop(path, None)
        if path in self.found:
            self.found.remove(path)

    def has_arrived(self, path: str, size: int, mtime_ns: int, here: int) -> None:
        self.forget(path)
        self.files[path] = [size, mtime_ns, here]

    def is_current(self, path: str, size: int, mtime_ns: int, found: os.stat_result) -> bool:
        """Whether a file is there as it is on the launching machine: no need to look into it."""
        return self.files.get(path) == [size, mtime_ns, found.st_mtime_ns] and found.st_size == size

    def is_unchanged(self, top: bytes, path: str, found: os.stat_result) -> bool:
        """Whether what was found at a path is what was put there."""
        if stat.S_ISLNK(found.st_mode):
            return path in self.links and self.links[path] == link_target(top, path)
        if not stat.S_ISREG(found.st_mode):
            return False
        size, _, here = self.files.get(path, (-1, 0, 0))
        if (found.st_size, found.st_mtime_ns) == (size, here):
            return True
        size, there = self.arriving.get(path, (-1, 0))
        return found.st_size == size and abs(found.st_mtime_ns - there) < ROUGH_CLOCK


class RecordFile:
    """The list's file, which is a lock, too: one launch at a time, also where several hosts share the directory."""

    def __init__(self, top: bytes) -> None:
        self._path = place(top, RECORD)
        self._fd: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether it is this agent's turn."""
        return self._fd is not None

    def claim(self) -> bool:
        """Try to hold it. Who replaces the file holds the new one, too: a lock on an old one is worth nothing."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if locked(fd) and os.path.samestat(os.fstat(fd), os.lstat(self._path)):
            self._fd = fd
            return True
        os.close(fd)
        return False

    def received(self) -> Received:
        """The list as it stands; an empty one where there was none."""
        assert self._fd is not None
        with os.fdopen(os.dup(self._fd), "rb") as file:
            return Received(file.read())

    def write(self, received: Received) -> None:
        new = self._path + b".new"
        if os.path.lexists(new):
            os.unlink(new)  # of an agent that was killed
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            locked(fd)
            write_all(fd, received.text())
            os.replace(new, self._path)
        except OSError:
            os.close(fd)
            os.unlink(new)
            raise
        self._close()
        self._fd = fd

    def release(self) -> None:
        """Let others have their turn; a file that is still empty goes."""
        if self._fd is not None and not os.fstat(self._fd).st_size:
            os.unlink(self._path)
        self._close()

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def locked(fd: int) -> bool:
    """Take an open file's lock; where the file system knows none, everybody gets it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def place(top: bytes, path: str) -> bytes:
    """Where a file of the list is, whatever this host's locale makes of its name."""
    return os.path.join(top, path.encode("utf-8", "surrogateescape"))


def link_target(top: bytes, path: str) -> str:
    return os.readlink(place(top, path)).decode("utf-8", "surrogateescape")


def look_at(top: bytes, path: str) -> os.stat_result | None:
    """What is at a path, or None. A link is not followed."""
    try:
        return os.lstat(place(top, path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_directory(top: bytes, path: str) -> bool:
    """Whether a directory is at a path; a link to one is none."""
    found = look_at(top, path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def parents(path: str) -> list[str]:
    """The directories on the way to a path, from the top on."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]
