"""Every change in a directory that receives a project: what is put there, made, deleted. Nothing of the user's is."""

from __future__ import annotations

import contextlib
import os

from launcher.on_host.agent.files import open_above, open_below, open_root
from launcher.on_host.agent.incoming import IncomingFile
from launcher.on_host.agent.received import Received, is_directory, look_at, parents, place

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator

UNFINISHED = ".tf-launch-new"
"""A file that is still coming in, beside its place. There is one at a time."""
STAGING = ".tf-launch-sync.new"
"""The same for rsync: a directory."""


class Placing:
    """Changes the directory, and `received`, its list, with it."""

    def __init__(self, top: bytes, received: Received) -> None:
        self._top = top
        self._received = received
        self._incoming: IncomingFile | None = None
        self._directory = -1
        """The one that it is in, open."""
        self.deleted = 0
        self.kept: list[str] = []
        """What should have been deleted, but was changed here."""

    # ---- what has gone
    def delete(self, path: str) -> None:
        """A file or link that is no longer in the project."""
        found = look_at(self._top, path) if all(is_directory(self._top, way) for way in parents(path)) else None
        if found is not None and path not in self._received.found:
            if self._received.is_unchanged(self._top, path, found):
                with self._above(path) as (directory, name):
                    os.unlink(name, dir_fd=directory)
                self.deleted += 1
            else:
                self.kept.append(path)
        self._received.forget(path)

    def delete_directory(self, path: str) -> None:
        """One that was made for files that have gone; it stays while anything else is in it."""
        if is_directory(self._top, path):
            if os.listdir(place(self._top, path)):
                return
            with self._above(path) as (directory, name):
                os.rmdir(name, dir_fd=directory)
        self._received.directories.remove(path)

    def sweep(self) -> None:
        """Remove what a transfer that was cut off has left half-way."""
        for path in self._received.arriving:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._above(path) as (directory, _):
                os.unlink(UNFINISHED, dir_fd=directory)
        if is_directory(self._top, STAGING):
            with self._above(f"{STAGING}/any") as (staging, _):
                for name in os.listdir(place(self._top, STAGING)):
                    os.unlink(name, dir_fd=staging)
        self.remove_staging()

    def remove_staging(self) -> None:
        if is_directory(self._top, STAGING):
            with self._above(STAGING) as (top, name):
                os.rmdir(name, dir_fd=top)

    # ---- what comes
    def make_staging(self) -> None:
        if not is_directory(self._top, STAGING):
            with self._above(STAGING) as (top, name):
                os.mkdir(name, 0o700, dir_fd=top)

    def make_directory(self, path: str) -> None:
        if not is_directory(self._top, path):
            with self._above(path) as (directory, name):
                os.mkdir(name, dir_fd=directory)

    def adopt(self, path: str, size: int, mtime_ns: int, mode: int) -> None:
        """A file that is here already, with the right contents."""
        where = place(self._top, path)
        ours = self._received.is_unchanged(self._top, path, os.lstat(where)) and path not in self._received.found
        with contextlib.suppress(PermissionError), self._itself(path) as itself:  # another user's can be read: enough
            os.chmod(itself, mode)
            os.utime(itself, ns=(mtime_ns, mtime_ns))
        self._received.has_arrived(path, size, mtime_ns, os.lstat(where).st_mtime_ns)
        if not ours:
            self._received.found.append(path)

    def set_mode(self, path: str, mode: int) -> None:
        """A file that is here as it should be, but for its permissions."""
        with contextlib.suppress(PermissionError), self._itself(path) as itself:  # as above
            os.chmod(itself, mode)

    def link(self, path: str, target: str) -> None:
        with self._above(path) as (directory, name):
            os.symlink(target.encode("utf-8", "surrogateescape"), UNFINISHED, dir_fd=directory)
            os.replace(UNFINISHED, name, src_dir_fd=directory, dst_dir_fd=directory)
        self._received.forget(path)
        self._received.links[path] = target

    def begin(self, path: str) -> None:
        with self._above(path) as (directory, _):
            self._directory = os.dup(directory)
        self._incoming = IncomingFile(self._directory, UNFINISHED)

    def write(self, data: bytes) -> None:
        assert self._incoming is not None
        self._incoming.add(data)

    def finish(self, path: str, size: int, sha256: str, mtime_ns: int, mode: int) -> None:
        """All of it has come: put it in its place, if it is what was sent."""
        assert self._incoming is not None
        here = self._incoming.verify(size, sha256, mtime_ns, mode)
        self._incoming.put(self._directory, path.rpartition("/")[2].encode("utf-8", "surrogateescape"))
        self._incoming = None
        os.close(self._directory)
        self._received.has_arrived(path, size, mtime_ns, here)

    def abort(self) -> None:
        """Remove what has not come in whole."""
        if self._incoming is not None:
            self._incoming.discard()
            self._incoming = None
            os.close(self._directory)

    @contextlib.contextmanager
    def _above(self, path: str) -> Iterator[tuple[int, bytes]]:
        """The directory that something is in, opened through no link, and its name there."""
        directory, name = open_above(open_root(self._top.decode("utf-8", "surrogateescape")), path)
        try:
            yield directory, name
        finally:
            os.close(directory)

    @contextlib.contextmanager
    def _itself(self, path: str) -> Iterator[str]:
        """A path that leads to what is there now, whatever is put in its place; not to what a link leads to."""
        fd = open_below(self._top.decode("utf-8", "surrogateescape"), path, os.O_PATH)
        try:
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
