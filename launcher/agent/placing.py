"""Every change in a directory that receives a project: what is put there, made, deleted. Nothing of the user's is."""

from __future__ import annotations

import os

from launcher.agent.received import Received, is_directory, look_at, parents, place, write_all

UNFINISHED = b".tf-launch-new"
"""A file that is still coming in, beside its place. There is one at a time."""
STAGING = ".tf-launch-sync.new"
"""The same for rsync: a directory."""


class Placing:
    """Changes the directory, and `received`, its list, with it."""

    def __init__(self, top: bytes, received: Received) -> None:
        self._top = top
        self._received = received
        self._incoming: tuple[int, bytes] | None = None
        self.deleted = 0
        self.kept: list[str] = []
        """What should have been deleted, but was changed here."""

    # ---- what has gone
    def delete(self, path: str) -> None:
        """A file or link that is no longer in the project."""
        found = look_at(self._top, path) if all(is_directory(self._top, way) for way in parents(path)) else None
        if found is not None and path not in self._received.found:
            if self._received.is_unchanged(self._top, path, found):
                os.unlink(place(self._top, path))
                self.deleted += 1
            else:
                self.kept.append(path)
        self._received.forget(path)

    def delete_directory(self, path: str) -> None:
        """One that was made for files that have gone; it stays while anything else is in it."""
        if is_directory(self._top, path):
            if os.listdir(place(self._top, path)):
                return
            os.rmdir(place(self._top, path))
        self._received.directories.remove(path)

    def sweep(self) -> None:
        """Remove what a transfer that was cut off has left half-way."""
        left = {self._unfinished(path) for path in self._received.arriving}
        if is_directory(self._top, STAGING):
            staging = place(self._top, STAGING)
            left |= {os.path.join(staging, name) for name in os.listdir(staging)}
        for path in left:
            if os.path.lexists(path):
                os.unlink(path)
        self.remove_staging()

    def remove_staging(self) -> None:
        """What rsync needed is not needed any more."""
        if is_directory(self._top, STAGING):
            os.rmdir(place(self._top, STAGING))

    # ---- what comes
    def make_staging(self) -> None:
        """Make ready for rsync."""
        make_private(place(self._top, STAGING))

    def make_directory(self, path: str) -> None:
        """A directory on the way to a file, unless it is there."""
        if not is_directory(self._top, path):
            os.mkdir(place(self._top, path))

    def adopt(self, path: str, size: int, mtime_ns: int, mode: int) -> None:
        """A file that is here already, with the right contents."""
        where = place(self._top, path)
        ours = self._received.is_unchanged(self._top, path, os.lstat(where)) and path not in self._received.found
        try:
            os.chmod(where, mode)
            os.utime(where, ns=(mtime_ns, mtime_ns))
        except PermissionError:
            pass  # another user's: it can be read, which is enough
        self._received.has_arrived(path, size, mtime_ns, os.lstat(where).st_mtime_ns)
        if not ours:
            self._received.found.append(path)

    def set_mode(self, path: str, mode: int) -> None:
        """A file that is here as it should be, but for its permissions."""
        try:
            os.chmod(place(self._top, path), mode)
        except PermissionError:
            return  # as above

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        new = self._unfinished(path)
        os.symlink(target.encode("utf-8", "surrogateescape"), new)
        os.replace(new, place(self._top, path))
        self._received.forget(path)
        self._received.links[path] = target

    def begin(self, path: str) -> None:
        """A file starts to come in."""
        new = self._unfinished(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._incoming = os.open(new, flags, 0o600), new

    def write(self, data: bytes) -> None:
        """Its next bytes."""
        assert self._incoming is not None
        write_all(self._incoming[0], data)

    def finish(self, path: str, size: int, mtime_ns: int, mode: int) -> None:
        """All of it has come: now it is there."""
        assert self._incoming is not None
        fd, new = self._incoming
        os.fchmod(fd, mode)
        os.utime(fd, ns=(mtime_ns, mtime_ns))
        here = os.fstat(fd).st_mtime_ns
        os.replace(new, place(self._top, path))
        self._incoming = None
        os.close(fd)
        self._received.has_arrived(path, size, mtime_ns, here)

    def abort(self) -> None:
        """What has not come in whole disappears."""
        if self._incoming is not None:
            fd, new = self._incoming
            self._incoming = None
            os.close(fd)
            os.unlink(new)

    def _unfinished(self, path: str) -> bytes:
        return os.path.join(os.path.dirname(place(self._top, path)), UNFINISHED)


def make_private(directory: bytes) -> None:
    """Make a directory and those above it, where missing, so that only their owner can look into them."""
    before = os.umask(0o077)
    try:
        os.makedirs(directory, exist_ok=True)
    finally:
        os.umask(before)
