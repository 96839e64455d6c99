"""A file that comes in from the launcher: whole and verified in its place, or not there at all."""

from __future__ import annotations

import contextlib
import errno
import os

FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class IncomingFile:
    """Written under a name of its own until all of it has come: `add`, `verify`, `put`; or `discard`."""

    def __init__(self, directory: int, name: str) -> None:
        """Begin it. What lies there by that name, of an agent that was killed, goes.

        Args:
            directory: where it is written, open as long as this is used; on the file system of its place.
            name: until it is whole.
        """
        import hashlib  # few runs need it, and all would wait for it

        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
        self._directory = directory
        self._name = name
        self._fd = os.open(name, FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory)
        self._digest = hashlib.sha256()

    def add(self, data: bytes) -> None:
        write_all(self._fd, data)
        self._digest.update(data)

    def close(self) -> None:
        """It is verified later: many files may wait for that, and be open all together they cannot."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def verify(self, size: int, sha256: str, mtime_ns: int, mode: int = 0o600) -> int:
        """All has come; return the time of modification as this file system keeps it.

        Raises:
            OSError: it is not what was sent.
        """
        if self._fd < 0:
            self._fd = os.open(self._name, FLAGS, dir_fd=self._directory)
        if (os.fstat(self._fd).st_size, self._digest.hexdigest()) != (size, sha256):
            raise OSError(errno.EIO, "what came of it is not what was sent")
        os.fchmod(self._fd, mode)
        os.utime(self._fd, ns=(mtime_ns, mtime_ns))
        kept = os.fstat(self._fd).st_mtime_ns
        self.close()
        return kept

    def put(self, directory: int, name: bytes) -> None:
        """Put it in its place; what is there by that name is replaced at once."""
        os.replace(self._name, name, src_dir_fd=self._directory, dst_dir_fd=directory)

    def discard(self) -> None:
        self.close()
        os.unlink(self._name, dir_fd=self._directory)


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
