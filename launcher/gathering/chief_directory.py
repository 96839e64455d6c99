"""`chief/` in the run directory: what has come of the chief's output directory, and what is on its way there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from launcher.gathering.arrival import Arrival
from launcher.gathering.checkpoints import prefix_of
from launcher.gathering.record import Entry, Record
from launcher.gathering.remote_files import RemoteFile
from launcher.gathering.selection import Batch, grows
from launcher.gathering.state_file import portable
from launcher.run_directory.whole_files import make_directory, relative, shown
from launcher.wording import exact_size

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
SPARE_ROOM = 1 << 20
"""Bytes that are left free on the disk: the run's own files go on growing."""


class NoRoomError(Exception):
    """The disk cannot take what is to come; the message tells what, how much and where."""


def forbidden(place: Path, what: int) -> OSError | None:
    """Why this user may not do to a place what `os.access` calls by these bits; None: it is allowed."""
    if os.access(place, what, effective_ids=True):
        return None
    try:
        number = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
    except OSError as error:
        return error
    return OSError(number, os.strerror(number), str(place))


def _sha256(path: Path) -> str | None:
    """Of a file here; None: it cannot be read."""
    try:
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return None


def is_copy(directory: Path, file: RemoteFile) -> bool:
    """Whether a directory here has a file as it is on a host, by path, size and time."""
    try:
        found = (directory / file.path).lstat()
    except (OSError, UnicodeEncodeError):
        return False
    return (found.st_size, found.st_mtime_ns) == (file.size, file.mtime_ns)


class ChiefDirectory:
    """What is here of the chief's files. Nothing that was not put here by us is ever changed."""

    def __init__(self, path: Path, parts: Path, record: Record, root: str) -> None:
        """Nothing is made yet.

        Args:
            path: of this directory.
            parts: another one on the same file system, for files that are not whole yet.
            record: what was put here.
            root: the output directory on its host.
        """
        self._root = root
        self._path = path
        self._parts = parts
        self._record = record

    def make(self) -> None:
        """Make its directory, where somebody has removed it since the run began.

        Raises:
            OSError: it cannot be made.
        """
        try:
            self._path.mkdir(mode=0o700)
        except FileExistsError:
            if not self._path.is_dir():
                raise

    def is_here(self, file: RemoteFile) -> bool:
        """Whether a file was put in place as it is on its host now."""
        entry = self._record.entries.get(file.path)
        if entry is None or (entry.size, entry.mtime_ns) != (file.size, file.mtime_ns):
            return False
        found = self._found(file.path)
        return found is not None and (found.st_size == file.size or file.is_state)

    def adopt(self, files: Iterable[RemoteFile]) -> None:
        """Take files for ours that look like it though the record has lost them: same size, same nanosecond."""
        for file in files:
            if file.path not in self._record.entries and (found := self._found(file.path)) is not None:
                is_same = (found.st_size, found.st_mtime_ns) == (file.size, file.mtime_ns)
                if is_same and stat.S_ISREG(found.st_mode) and (digest := _sha256(self._path / file.path)):
                    self._record.put(file.path, Entry(file.size, file.mtime_ns, digest))

    def obstacle(self, file: RemoteFile) -> str | None:
        """Why a file cannot be put in place; None: it can."""
        place = self._path / file.path
        try:
            found = place.lstat()
        except (FileNotFoundError, PermissionError):
            return None  # see `refusal`
        except NotADirectoryError:
            return "a file is in the place of its directory here"
        except (OSError, UnicodeEncodeError) as error:
            return f"here, its name cannot be used: {getattr(error, 'strerror', None) or error}"
        if stat.S_ISDIR(found.st_mode):
            return "a directory is in its place here"
        return None if file.path in self._record.entries else "another file, which is not ours, is in its place here"

    def refusal(self, file: RemoteFile) -> OSError | None:
        """Why this user may not write a file where it is to come to here; None: nothing forbids that."""
        place = self._path / file.path
        if grows(file.path) and self._found(file.path) is not None:
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
        needed = batch.size - sum(self._size_of_part(file) for file in batch.files)
        free = disk.f_bavail * disk.f_frsize
        if disk.f_blocks and needed > max(0, free - SPARE_ROOM):
            raise NoRoomError(
                f"no room in {relative(self._path)} for {shown(Path(batch.name))}: "
                f"{exact_size(needed)} are needed, {exact_size(free)} are free, {exact_size(SPARE_ROOM)} stays free"
            )

    def begin(self, file: RemoteFile) -> Arrival:
        """Begin the arrival of a file, or go on with it. One that may have grown begins with what is here."""
        in_place = grows(file.path) and file.path in self._record.entries
        place, part = self._path / file.path, self._part(file.path)
        if not in_place and not part.exists() and self._may_have_grown(file):
            make_directory(self._parts)
            with contextlib.suppress(PermissionError):  # then all of it comes
                shutil.copyfile(place, part)
        return Arrival(file, place, part, in_place=in_place)

    def _may_have_grown(self, file: RemoteFile) -> bool:
        """A table of metrics, say: what is here is compared by its hash before the rest is sent."""
        entry, found = self._record.entries.get(file.path), self._found(file.path)
        if entry is None or found is None or not stat.S_ISREG(found.st_mode) or prefix_of(file.path) is not None:
            return False
        return 0 < entry.size == found.st_size < file.size

    def put(self, arrived: Sequence[Arrival], *, durable: bool) -> None:
        """Put files in place, each whole and verified, in this order.

        Raises:
            OSError: one cannot be put there.
        """
        *_, last = arrived
        if len(arrived) > 1 and last.file.path in self._record.entries:
            (self._path / last.file.path).unlink(missing_ok=True)  # the index of the former one names other data
        for each in arrived:
            self._record.put(each.file.path, Entry(each.offset, each.mtime_ns, each.sha256))
            if each.file.is_state:
                each.replace(portable(each.content(), f"{self._root}/{each.file.directory}"))
            each.put(durable=durable)

    def remove(self, path: str) -> None:
        """Remove a file that the chief has no more, and its directory if that is empty then."""
        place = self._path / path
        place.unlink(missing_ok=True)
        self._record.drop(path)
        with contextlib.suppress(OSError):  # not empty
            place.parent.rmdir()

    def sweep(self, keep: Iterable[str]) -> None:
        """Remove what is left of arrivals that will not be gone on with; `keep`: the paths of the others."""
        if self._parts.is_dir():
            kept = {self._part(path) for path in keep}
            for part in self._parts.iterdir():
                if part not in kept:
                    with contextlib.suppress(OSError):
                        part.unlink()
            with contextlib.suppress(OSError):  # not empty
                self._parts.rmdir()

    def _part(self, path: str) -> Path:
        """A name of the right length, whatever the file's own is."""
        return self._parts / f"{hashlib.sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.part"

    def _size_of_part(self, file: RemoteFile) -> int:
        try:
            return min(file.size, self._part(file.path).stat().st_size)
        except FileNotFoundError:
            return 0

    def _found(self, path: str) -> os.stat_result | None:
        try:
            return (self._path / path).lstat()
        except (OSError, UnicodeEncodeError):
            return None
