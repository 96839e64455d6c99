"""Files that the launcher brings for the next attempt: each comes beside its place, and all get there at once.

They lie in a directory of their own until every one of them is here with the right size and SHA-256. What has not come
in whole is removed: when something fails, and when the launcher is gone.
"""

from __future__ import annotations

import errno
import os

from launcher.agent.files import BELOW, open_root
from launcher.agent.received import write_all

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable
    from typing import Any


class Deliveries:
    """One delivery at a time, into one directory."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell
        self._root = ""
        self._staging: bytes | None = None
        """None: nothing is under way."""
        self._digests: dict[int, Any] = {}
        """File -> the hash of what has come of it."""
        self._open: tuple[int, int] | None = None
        """The file that is being written, and its descriptor: they come one after the other."""

    def begin(self, number: int, root: str, staging: str) -> None:
        """Make ready for files that will be placed below `root`. Until then they lie in `staging`, this host's own."""
        self.close()
        try:
            self._root = root
            os.makedirs(root, mode=0o700, exist_ok=True)
            self._staging = os.fsencode(staging)
            remove_directory(self._staging)  # of an agent that was killed
            os.mkdir(self._staging, 0o700)
            space = os.statvfs(self._staging)
        except OSError as error:
            self._fail(number, error.filename or root, error)
            return
        self._tell("files_ready", number=number, free=space.f_bavail * space.f_frsize)

    def take(self, number: int, file: int, path: str, body: bytes = b"") -> None:
        """The next bytes of a file. What is still on its way after a failure is dropped."""
        if self._staging is None:
            return
        try:
            write_all(self._opened(file), body)
            self._digests[file].update(body)
        except OSError as error:
            self._fail(number, path, error)
            return
        self._tell("files_taken", number=number)

    def place(self, number: int, files: list[list[Any]]) -> None:
        """Put everything in its place: path below the root, size, time of modification (ns), SHA-256 of each."""
        if self._staging is None:
            return
        path = ""
        try:
            for file, (path, *stamp) in enumerate(files):  # noqa: B007 (named where something fails)
                self._verify(file, *stamp)
            for file, (path, *_) in enumerate(files):
                put_below(self._root, path, self._place_of(file))
        except OSError as error:
            self._fail(number, path, error)
            return
        self.close()
        self._tell("files_placed", number=number)

    def _verify(self, file: int, size: int, mtime_ns: int, sha256: str) -> None:
        if file not in self._digests:
            self._opened(file)  # it is empty
        place = self._place_of(file)
        if (os.stat(place).st_size, self._digests[file].hexdigest()) != (size, sha256):
            raise OSError(errno.EIO, "what came of it is not what was sent")
        os.utime(place, ns=(mtime_ns, mtime_ns))

    def drop(self, number: int) -> None:  # noqa: ARG002 (each step has one)
        """Nobody wants any more what is under way."""
        self.close()

    def close(self) -> None:
        """What has not been put in its place is gone."""
        self._close_open()
        self._digests = {}
        if self._staging is not None:
            staging, self._staging = self._staging, None
            try:
                remove_directory(staging)
            except OSError as error:
                os.write(2, f"{os.fsdecode(staging)} is left: {error.strerror}\n".encode())

    def _opened(self, file: int) -> int:
        import hashlib  # few runs need it, and all would wait for it

        if self._open is None or self._open[0] != file:
            self._close_open()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._open = file, os.open(self._place_of(file), flags, 0o600)
            self._digests[file] = hashlib.sha256()
        return self._open[1]

    def _close_open(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def _place_of(self, file: int) -> bytes:
        assert self._staging is not None
        return os.path.join(self._staging, str(file).encode())

    def _fail(self, number: int, path: str, error: OSError) -> None:
        self.close()
        code = errno.errorcode.get(error.errno or 0, "")
        self._tell("files_failed", number=number, path=path, code=code, reason=error.strerror or str(error))


def put_below(root: str, path: str, staged: bytes) -> None:
    """Move a file to `path` below `root`; directories that are missing are made, and no symbolic link is followed.

    Raises:
        OSError: something else is in the way, or the path could lead out of `root`.
    """
    *above, last = path.encode("utf-8", "surrogateescape").split(b"/")
    if any(name in (b"", b".", b"..") or b"\0" in name for name in (*above, last)):
        raise FileNotFoundError(errno.ENOENT, f"no path below {root}")
    directory = open_root(root)
    try:
        for name in above:
            deeper = made_below(directory, name)
            os.close(directory)
            directory = deeper
        os.rename(staged, last, dst_dir_fd=directory)
    finally:
        os.close(directory)


def made_below(directory: int, name: bytes) -> int:
    """Open a directory in another one; make it if it is not there."""
    try:
        return os.open(name, BELOW, dir_fd=directory)
    except FileNotFoundError:
        os.mkdir(name, 0o700, dir_fd=directory)
        return os.open(name, BELOW, dir_fd=directory)


def remove_directory(directory: bytes) -> None:
    """With the files in it, if it is there."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    for name in names:
        os.unlink(os.path.join(directory, name))
    os.rmdir(directory)
