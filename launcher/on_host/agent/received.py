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
    from launcher.on_host.agent.messages import ProjectFile
    from launcher.on_host.agent.workdir import Workdir

RECORD = ".tf-launch-sync.json"
ROUGH_CLOCK = 2 * 10**9
"""Nanoseconds by which a file system may round a time of modification (FAT)."""


class Received:
    """The list: every file, link and directory that was put there."""

    def __init__(self) -> None:
        self.files: dict[str, list[int]] = {}
        """Path -> size, time of modification on the launching machine, and here."""
        self.found: list[str] = []
        """Those of `files` that were here before, with the same contents: they are never deleted."""
        self.arriving: dict[str, list[int]] = {}
        """Path -> size, time of modification on the launching machine. Written down before anything is changed."""
        self.links: dict[str, str] = {}
        self.directories: list[str] = []

    def load(self, text: bytes) -> None:
        try:
            known = json.loads(text)
        except ValueError:  # none yet, or not ours any more; either way nothing there may be touched
            return
        vars(self).update({name: known[name] for name in vars(self) if name in known})

    def text(self) -> bytes:
        return json.dumps({"about": "what tf-launch has put here", **vars(self)}, indent=1).encode()

    def paths(self) -> set[str]:
        return {*self.files, *self.arriving, *self.links}

    def forget(self, path: str) -> None:
        """It is not there any more, or belongs to the user now."""
        for known in (self.files, self.arriving, self.links):
            known.pop(path, None)
        if path in self.found:
            self.found.remove(path)

    def has_arrived(self, path: str, size: int, mtime_ns: int, here: int) -> None:
        """`here`: its time of modification, as this file system keeps it."""
        self.forget(path)
        self.files[path] = [size, mtime_ns, here]

    def is_current(self, file: ProjectFile, found: os.stat_result) -> bool:
        """Whether a file is there as it is on the launching machine: no need to look into it."""
        if file.target is not None or not stat.S_ISREG(found.st_mode) or found.st_size != file.size:
            return False
        return self.files.get(file.path) == [file.size, file.mtime_ns, found.st_mtime_ns]

    def is_unchanged(self, workdir: Workdir, path: str, found: os.stat_result) -> bool:
        """Whether what was found at a path is what was put there."""
        if stat.S_ISLNK(found.st_mode):
            return path in self.links and self.links[path] == workdir.link_target(path)
        if not stat.S_ISREG(found.st_mode):
            return False
        size, _, here = self.files.get(path, (-1, 0, 0))
        if (found.st_size, found.st_mtime_ns) == (size, here):
            return True
        size, there = self.arriving.get(path, (-1, 0))
        return found.st_size == size and abs(found.st_mtime_ns - there) < ROUGH_CLOCK


class RecordFile:
    """The list's file, which is a lock, too: one launch at a time, also where several hosts share the directory."""

    def __init__(self, workdir: Workdir, received: Received) -> None:
        """Nothing is opened yet."""
        self._path = workdir.place(RECORD)
        self._received = received
        self._fd: int | None = None

    def claim(self) -> bool:
        """Try to lock it, and load the list. Another launch may replace the file meanwhile: the new one counts."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not (locked(fd) and os.path.samestat(os.fstat(fd), os.lstat(self._path))):
            os.close(fd)
            return False
        self._fd = fd
        with os.fdopen(os.dup(fd), "rb") as file:
            self._received.load(file.read())
        return True

    def save(self) -> None:
        """Write the list down."""
        new = self._path + b".new"
        if os.path.lexists(new):
            os.unlink(new)  # of an agent that was killed
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            locked(fd)
            write_all(fd, self._received.text())
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
