"""Files that the launcher brings for the next attempt: each comes beside its place, and all get there at once.

They lie in a directory of their own until every one of them is here with the right size and SHA-256. What has not come
in whole is removed: when something fails, and when the launcher is gone.
"""

from __future__ import annotations

import contextlib
import errno
import os

from launcher.on_host.agent.below import directory_below, remove_below
from launcher.on_host.agent.files import open_above
from launcher.on_host.agent.incoming import IncomingFile
from launcher.on_host.agent.jobs import Job
from launcher.on_host.agent.messages import (
    BeginDelivery,
    DeliverPiece,
    DeliveryPlaced,
    DeliveryReady,
    DropDelivery,
    FilesFailed,
    PieceDelivered,
    PlaceDelivery,
)
from launcher.on_host.agent.own_directory import UnsafeError, reopened

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable

    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.messages import Event


class Deliveries(Job):
    """One delivery at a time, into one directory."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._run = -1
        """The directory that has the next one in it, open like those; -1: nothing is under way."""
        self._root = -1
        self._staging = -1
        self._staged_in = ""
        """The name of the directory in which files lie until all are there."""
        self._files: dict[int, IncomingFile] = {}
        """What has come, by number."""

    def handlers(self) -> Handlers:
        return {
            BeginDelivery: self._begin,
            DeliverPiece: self._add,
            PlaceDelivery: self._place,
            DropDelivery: lambda _: self.close(),
        }

    def _begin(self, asked: BeginDelivery) -> None:
        """Make ready for files that will be placed below `root`. Until then they lie in `staging`, this host's own.

        Both are in the run's directory; the user may have moved the first to another place, and left a link.
        """
        self.close()
        try:
            run, self._staged_in = os.path.split(asked.staging)
            self._run = reopened(run)
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.basename(asked.root), 0o700, dir_fd=self._run)
            self._root = os.open(os.path.basename(asked.root), os.O_PATH | os.O_DIRECTORY, dir_fd=self._run)
            remove_below(self._run, self._staged_in)  # of an agent that was killed
            self._staging = directory_below(self._run, self._staged_in)
            space = os.statvfs(self._staging)
        except OSError as error:
            self._fail(asked.number, error.filename or asked.root, error)
            return
        self._tell(DeliveryReady(asked.number, space.f_bavail * space.f_frsize))

    def _add(self, asked: DeliverPiece) -> None:
        """The next bytes of a file. What is still on its way after a failure is dropped."""
        if self._staging < 0:
            return
        try:
            self._file(asked.file).add(asked.data)
        except OSError as error:
            self._fail(asked.number, asked.path, error)
            return
        self._tell(PieceDelivered(asked.number))

    def _place(self, asked: PlaceDelivery) -> None:
        if self._staging < 0:
            return
        path = ""
        try:
            for file, (path, size, mtime_ns, sha256) in enumerate(asked.files):  # noqa: B007 (named where something fails)
                self._file(file).verify(size, sha256, mtime_ns)
            for file, (path, *_) in enumerate(asked.files):
                self._put(file, path)
        except OSError as error:
            self._fail(asked.number, path, error)
            return
        self.close()
        self._tell(DeliveryPlaced(asked.number))

    def _put(self, number: int, path: str) -> None:
        directory, name = open_above(os.dup(self._root), path, make=True)
        try:
            self._files[number].put(directory, name)
        finally:
            os.close(directory)

    def close(self) -> None:
        """Remove what has not been put in its place."""
        for file in self._files.values():
            file.close()
        self._files = {}
        if self._staging >= 0:
            try:
                remove_below(self._run, self._staged_in)
            except OSError as error:
                os.write(2, f"{self._staged_in} is left: {error.strerror}\n".encode())
        for each in (self._run, self._root, self._staging):
            if each >= 0:
                os.close(each)
        self._run = self._root = self._staging = -1

    def _file(self, number: int) -> IncomingFile:
        """Pieces of one come after the other, so the former one is complete; an empty file has no piece."""
        if number not in self._files:
            if self._files:
                self._files[max(self._files)].close()
            self._files[number] = IncomingFile(self._staging, str(number))
        return self._files[number]

    def _fail(self, number: int, path: str, error: OSError) -> None:
        self.close()
        code = "" if isinstance(error, UnsafeError) else errno.errorcode.get(error.errno or 0, "")
        self._tell(FilesFailed(number, path, code, error.strerror or str(error)))
