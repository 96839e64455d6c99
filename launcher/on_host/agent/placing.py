"""Every change in a directory that receives a project: what is put there, made, deleted. Nothing of the user's is."""

from __future__ import annotations

import contextlib
import os

from launcher.on_host.agent.below import remove_below
from launcher.on_host.agent.files import path_bytes
from launcher.on_host.agent.incoming import IncomingFile
from launcher.on_host.agent.workdir import parents

if False:  # names for type checkers only: typing costs start-up time
    from launcher.on_host.agent.messages import BringProjectPiece, ProjectFile
    from launcher.on_host.agent.received import Received
    from launcher.on_host.agent.workdir import Workdir

UNFINISHED = ".tf-launch-new"
"""A file that is still coming in, beside its place. There is one at a time."""
STAGING = ".tf-launch-sync.new"
"""The same for rsync: a directory."""


class Placing:
    """Changes the directory, and `received`, its list, with it."""

    def __init__(self, workdir: Workdir, received: Received) -> None:
        self._workdir = workdir
        self._received = received
        self._incoming: IncomingFile | None = None
        self._beside = -1
        """The directory that it is in, open."""
        self.deleted = 0
        self.kept: list[str] = []
        """What should have been deleted, but was changed here."""

    # ---- what has gone
    def delete(self, path: str) -> None:
        """A file or link that is no longer in the project."""
        is_reached = all(self._workdir.has_directory(way) for way in parents(path))
        found = self._workdir.look_at(path) if is_reached else None
        if found is not None and path not in self._received.found:
            if self._received.is_unchanged(self._workdir, path, found):
                with self._workdir.above(path) as (directory, name):
                    os.unlink(name, dir_fd=directory)
                self.deleted += 1
            else:
                self.kept.append(path)
        self._received.forget(path)

    def delete_directory(self, path: str) -> None:
        """One that was made for files that have gone; it stays while anything else is in it."""
        if self._workdir.has_directory(path):
            if self._workdir.names_in(path):
                return
            with self._workdir.above(path) as (directory, name):
                os.rmdir(name, dir_fd=directory)
        self._received.directories.remove(path)

    def sweep(self) -> None:
        """Remove what a transfer that was cut off has left half-way."""
        for path in self._received.arriving:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._workdir.above(path) as (beside, _):
                os.unlink(UNFINISHED, dir_fd=beside)
        self.remove_staging()

    def remove_staging(self) -> None:
        if self._workdir.has_directory(STAGING):
            with self._workdir.above(STAGING) as (top, _):
                remove_below(top, STAGING)

    # ---- what comes
    def make_directory(self, path: str, mode: int = 0o777) -> None:
        if not self._workdir.has_directory(path):
            with self._workdir.above(path) as (directory, name):
                os.mkdir(name, mode, dir_fd=directory)

    def adopt(self, file: ProjectFile) -> None:
        """A file that is here already, with the right contents."""
        place = self._workdir.place(file.path)
        was_put = self._received.is_unchanged(self._workdir, file.path, os.lstat(place))
        ours = was_put and file.path not in self._received.found
        with contextlib.suppress(PermissionError), self._workdir.itself(file.path) as itself:
            # another user's can be read, which is enough
            os.chmod(itself, file.mode)
            os.utime(itself, ns=(file.mtime_ns, file.mtime_ns))
        self._received.has_arrived(file.path, file.size, file.mtime_ns, os.lstat(place).st_mtime_ns)
        if not ours:
            self._received.found.append(file.path)

    def link(self, path: str, target: str) -> None:
        with self._workdir.above(path) as (directory, name):
            os.symlink(path_bytes(target), UNFINISHED, dir_fd=directory)
            os.replace(UNFINISHED, name, src_dir_fd=directory, dst_dir_fd=directory)
        self._received.forget(path)
        self._received.links[path] = target

    def add(self, path: str, piece: BringProjectPiece) -> None:
        """The next bytes of a file. The last ones put it in its place, if it is what was sent."""
        if piece.at == 0:
            with self._workdir.above(path) as (beside, _):
                self._beside = os.dup(beside)
            self._incoming = IncomingFile(self._beside, UNFINISHED)
        assert self._incoming is not None
        self._incoming.add(piece.data)
        if piece.at + len(piece.data) == piece.size:
            here = self._incoming.verify(piece.size, piece.sha256, piece.mtime_ns, piece.mode)
            self._incoming.put(self._beside, path_bytes(path.rpartition("/")[2]))
            self._incoming = None
            os.close(self._beside)
            self._received.has_arrived(path, piece.size, piece.mtime_ns, here)

    def abort(self) -> None:
        """Remove what has not come in whole."""
        if self._incoming is not None:
            self._incoming.discard()
            self._incoming = None
            os.close(self._beside)
