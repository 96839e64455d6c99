"""`chief/` in the run directory: what has come of the chief's output directory, and what is on its way there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from launcher.gathering.arrival import Arrival
from launcher.gathering.checkpoints import prefix_of
from launcher.gathering.file_kinds import grows
from launcher.gathering.gathered import Batch
from launcher.gathering.record import Record
from launcher.gathering.remote_files import RemoteFile
from launcher.gathering.state_file import portable
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.whole_files import make_directory, relative, shown
from launcher.wording import exact_size

SPARE_ROOM = 1 << 20
"""Bytes that are left free on the disk: the run's own files go on growing."""


class NoRoomError(OSError):
    """The disk cannot take what is to come; the message tells what, how much and where."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.ENOSPC, message)

    def __str__(self) -> str:
        return str(self.strerror)


def check_room(place: str, what: str, needed: int, free: int) -> None:
    """See that so many bytes have room among those that are free.

    Raises:
        NoRoomError: they have none.
    """
    if needed > max(0, free - SPARE_ROOM):
        raise NoRoomError(
            f"no room in {place} for {what}: {exact_size(needed)} are needed, {exact_size(free)} are free, "
            f"{exact_size(SPARE_ROOM)} stays free"
        )


def is_of_full_disk(error: Exception) -> bool:
    """Whether it says that a disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def forbidden(place: Path, what: int) -> OSError | None:
    """Why this user lacks the access to a path that these bits of `os.access` stand for; None: the user has it."""
    if os.access(place, what, effective_ids=True):
        return None
    try:
        number = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
    except OSError as error:
        return error
    return OSError(number, os.strerror(number), str(place))


def is_copy(directory: Path, file: RemoteFile) -> bool:
    """Whether a directory here has a file as it is on a host, by path, size and time."""
    found = _found(directory / file.path)
    return found is not None and stat.S_ISREG(found.st_mode) and (found.st_size, found.st_mtime_ns) == file.stamp


@contextlib.contextmanager
def open_chief_directory(directory: RunDirectory, root: str) -> Iterator[ChiefDirectory]:
    """The directory of a run while no other launcher has it open. `root`: the output directory on the chief's host.

    Raises:
        InUseError: another launcher has it open.
        OSError: its record cannot be opened, read or written.
    """
    with contextlib.closing(Record(directory.gathered_file)) as record:
        here = ChiefDirectory(directory, record, root)
        try:
            yield here
        except OSError as error:
            if is_of_full_disk(error):
                here.sweep(keep=())  # the room is of more use than half a file
            raise


class ChiefDirectory:
    """The files that have come, and the record of them. Nothing that was not put here by us is ever changed."""

    def __init__(self, directory: RunDirectory, record: Record, root: str) -> None:
        self._path = directory.chief
        self._parts = directory.parts
        """On the same file system, for files that are not whole yet."""
        self._record = record
        self._root = root
        self.known: Mapping[str, RemoteFile] = record.files
        """What was put here, by path, as it was on its host then."""

    def is_here(self, file: RemoteFile) -> bool:
        """Whether a file was put in place as it is on its host now."""
        known, found = self.known.get(file.path), _found(self._path / file.path)
        if known is None or known.stamp != file.stamp or found is None:
            return False
        return found.st_size == file.size or file.is_state

    def adopt(self, files: Iterable[RemoteFile]) -> None:
        """Record files that are here as they are on the host, by size and time, where the record lacks them."""
        for file in files:
            if file.path not in self.known and is_copy(self._path, file):
                digest = _sha256(self._path / file.path)
                if digest is not None:
                    self._record.put(file._replace(sha256=digest))

    def obstacle(self, file: RemoteFile) -> str | None:
        """Why a file cannot be put in place; None: it can."""
        try:
            found = (self._path / file.path).lstat()
        except (FileNotFoundError, PermissionError):
            return None  # see `refusal`
        except NotADirectoryError:
            return "a file is in the place of its directory here"
        except (OSError, UnicodeEncodeError) as error:
            return f"here, its name cannot be used: {getattr(error, 'strerror', None) or error}"
        if stat.S_ISDIR(found.st_mode):
            return "a directory is in its place here"
        return None if file.path in self.known else "another file, which is not ours, is in its place here"

    def refusal(self, file: RemoteFile) -> OSError | None:
        """Why this user may not write a file where it is to come to here; None: nothing forbids that."""
        place = self._path / file.path
        if grows(file.path) and _found(place) is not None:
            return forbidden(place, os.R_OK | os.W_OK)
        place = place.parent
        while place != self._path and not os.path.lexists(place):
            place = place.parent
        return forbidden(place, os.W_OK | os.X_OK)

    def check_room(self, batch: Batch) -> None:
        """See that the disk can take a batch.

        Raises:
            NoRoomError: it cannot.
            OSError: there is no such disk.
        """
        disk = os.statvfs(self._path)
        if disk.f_blocks:
            needed = batch.size - sum(self._size_of_part(file) for file in batch.files)
            check_room(relative(self._path), shown(Path(batch.name)), needed, disk.f_bavail * disk.f_frsize)

    def begin(self, file: RemoteFile) -> Arrival:
        """Begin the arrival of a file, or go on with it. One that may have grown begins with what is here."""
        in_place = grows(file.path) and file.path in self.known
        place, part = self._path / file.path, self._part(file.path)
        if not in_place and not part.exists() and self._may_have_grown(file):
            make_directory(self._parts)
            with contextlib.suppress(PermissionError):  # then all of it comes
                shutil.copyfile(place, part)
        return Arrival(file, place, part, in_place=in_place)

    def _may_have_grown(self, file: RemoteFile) -> bool:
        """A table of metrics, say: what is here is compared by its hash before the rest is sent."""
        known, found = self.known.get(file.path), _found(self._path / file.path)
        if known is None or found is None or not stat.S_ISREG(found.st_mode) or prefix_of(file.path) is not None:
            return False
        return 0 < known.size == found.st_size < file.size

    def put(self, arrived: Sequence[Arrival], *, durable: bool) -> None:
        """Put files in place, each whole and verified, in this order.

        Raises:
            OSError: one cannot be put there.
        """
        *_, last = arrived
        if len(arrived) > 1 and last.file.path in self.known:
            (self._path / last.file.path).unlink(missing_ok=True)  # the index of the former one names other data
        for each in arrived:
            self._record.put(each.arrived)
            if each.file.is_state:
                each.replace(portable(each.content(), f"{self._root}/{each.file.directory}"))
            each.put(durable=durable)

    def remove(self, path: str) -> None:
        """Remove a file that the chief has no more, and its directory if that is empty then.

        Raises:
            OSError: it cannot be removed.
        """
        place = self._path / path
        place.unlink(missing_ok=True)
        self._record.drop(path)
        with contextlib.suppress(OSError):  # not empty
            place.parent.rmdir()

    def sweep(self, keep: Collection[str]) -> None:
        """Remove the parts of files; `keep`: paths of files that may still arrive, whose parts stay."""
        if self._parts.is_dir():
            kept = {self._part(path) for path in keep}
            for part in self._parts.iterdir():
                if part not in kept:
                    with contextlib.suppress(OSError):
                        part.unlink()
            with contextlib.suppress(OSError):  # not empty
                self._parts.rmdir()

    def _part(self, path: str) -> Path:
        """Where a file is written until it is whole: a name of one length, however long its own is."""
        return self._parts / f"{hashlib.sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.part"

    def _size_of_part(self, file: RemoteFile) -> int:
        found = _found(self._part(file.path))
        return min(file.size, found.st_size) if found else 0


def _sha256(path: Path) -> str | None:
    """Of a file here; None: it cannot be read."""
    try:
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return None


def _found(place: Path) -> os.stat_result | None:
    try:
        return place.lstat()
    except (OSError, UnicodeEncodeError):
        return None
