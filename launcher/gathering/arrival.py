"""One file on its way here: bytes in, a verified file out."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from launcher.gathering.remote_files import NO_TIME, RefusedError, RemoteFile, is_time, readable
from launcher.on_host.agent.messages import FilePiece, FileSent
from launcher.run_directory.whole_files import make_directory, write_all_at
from launcher.wording import exact_size

READ_SIZE = 1 << 20


class Arrival:
    """A file that arrives piece by piece, and begins with what an earlier try has left.

    It is written beside its place; or at its place, if it grows there: who has it open (TensorBoard) goes on reading.
    """

    def __init__(self, file: RemoteFile, place: Path, part: Path, *, in_place: bool = False) -> None:
        """Open it, and hash what is here already.

        Args:
            file: as its host has listed it.
            place: where the file is to be in the end.
            part: where it is written until it is whole.
            in_place: append to the file that is at `place`, if there is one.

        Raises:
            OSError: the disk is full, or something is in the way.
        """
        self.file = file
        self.place = place
        self.offset = 0
        """Bytes that are here."""
        self.received = 0
        """Bytes of them that had to be sent."""
        self.mtime_ns = 0
        """When it had been written to, as it was sent."""
        self.unchanged = True
        """Nobody wrote to it while it was sent."""
        self.failure: str | None = None
        """Why it is not here, whole and verified."""
        self._part = part
        self._in_place = in_place and os.path.lexists(place)
        self._digest = hashlib.sha256()
        self._fd = _opened(place if self._in_place else part)
        try:
            self._resume()
        except OSError:
            self.close()
            raise

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    @property
    def arrived(self) -> RemoteFile:
        """The file as it has come, which is how it was while it was sent."""
        return RemoteFile(self.file.path, self.offset, self.mtime_ns, self.sha256)

    def _resume(self) -> None:
        with _naming(self.place):
            while data := os.pread(self._fd, READ_SIZE, self.offset):
                self._add(data)

    def append(self, piece: FilePiece) -> None:
        """Write the next bytes. The first ones at 0 mean that what was here before is not what the file begins with.

        Raises:
            OSError: they cannot be written.
            RefusedError: they are not the next ones, or the file is not listed with so many.
        """
        offset, size = piece.offset, len(piece.data)
        expected = self.offset if offset or self.received else 0
        path = readable(self.file.path)
        if offset != expected or not size:
            raise RefusedError(f"of {path} it sent {size} bytes from {offset} on, not those from {expected}")
        if offset + size > self.file.size:
            raise RefusedError(f"it sent more of {path} than it had listed, {exact_size(self.file.size)}")
        if offset < self.offset:
            self._begin_anew()
        with _naming(self.place):
            write_all_at(self._fd, piece.data, offset)
        self.received += size
        self._add(piece.data)

    def end(self, sent: FileSent) -> None:
        """All that was to be sent has come."""
        if (sent.size, sent.sha256) != (self.offset, self.sha256):
            self.failure = "what came of it is not what was sent"
        elif not is_time(sent.mtime_ns):
            self.failure = NO_TIME
        else:
            self.mtime_ns, self.unchanged = sent.mtime_ns, sent.unchanged

    def content(self, offset: int = 0) -> bytes:
        """What is here, from `offset` on (negative: from the end)."""
        start = max(0, self.offset + offset) if offset < 0 else offset
        return os.pread(self._fd, self.offset - start, start)

    def replace(self, content: bytes) -> None:
        """Have something else than what has come, and has been verified, put in its place.

        Raises:
            OSError: it cannot be written.
        """
        with _naming(self.place):
            os.ftruncate(self._fd, 0)
            write_all_at(self._fd, content, 0)

    def put(self, *, durable: bool = False) -> None:
        """Put it in its place. `durable`: wait until the disk has it, so that a power cut costs nothing.

        Raises:
            OSError: it cannot be put there.
        """
        with _naming(self.place):
            os.utime(self._fd, ns=(self.mtime_ns, self.mtime_ns))
            if durable:
                os.fsync(self._fd)
        if not self._in_place:
            make_directory(self.place.parent)
            self._part.replace(self.place)
        self.close()

    def discard(self) -> None:
        """Forget what has come of it. What had been put in its place before stays there."""
        self.close()
        if not self._in_place:
            self._part.unlink(missing_ok=True)

    def close(self) -> None:
        """Keep what has come for the next try."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _begin_anew(self) -> None:
        if self._in_place:
            self.close()
            self._fd, self._in_place = _opened(self._part), False
        os.ftruncate(self._fd, 0)
        self._digest = hashlib.sha256()
        self.offset = 0

    def _add(self, data: bytes) -> None:
        self._digest.update(data)
        self.offset += len(data)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What goes wrong with an open file does not say with which."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _opened(path: Path) -> int:
    make_directory(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
