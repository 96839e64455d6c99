"""Files of this host, listed and sent to the launcher piece by piece, between everything else that the agent does."""

from __future__ import annotations

import errno
import math
import os
import stat
import time

from launcher.on_host.agent.jobs import Job
from launcher.on_host.agent.messages import (
    FilePiece,
    FilesArrived,
    FileSent,
    FilesFailed,
    FilesListed,
    FilesListEnded,
    ForgetFiles,
    ListFiles,
    SendFile,
)
from launcher.on_host.agent.window import PIECE, SendWindow

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Generator, Iterator
    from typing import Any

    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.link import Link

BATCH = 500
"""Files told of in one frame, and looked at before the agent looks after everything else again."""
BATCH_CHARACTERS = 1 << 17
"""Of all names in one frame, above which it is sent; on the wire each may take up six bytes."""
SHORT_BACKLOG = 1 << 19
"""Bytes waiting to be written to the launcher, above which no file is read: logs and news pass them by. So much keeps
a pipe full while the next piece is read and hashed."""
FILE_TIME = 0.01
"""Seconds given to files before everything else gets its turn."""

EVERYTHING = "."
"""The name that stands for all that is below a directory."""
BELOW = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW


class Files(Job):
    """What the launcher has asked for and not got yet. It is served in order, lists first: they are short."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._tell = link.tell
        self._lists: list[Generator[None]] = []
        self._sendings: list[Generator[None]] = []
        self._window = SendWindow()

    def handlers(self) -> Handlers:
        return {
            ListFiles: lambda asked: self._lists.append(self._listing(asked)),
            SendFile: lambda asked: self._sendings.append(self._sending(asked)),
            FilesArrived: lambda asked: self._window.arrived(asked.count, time.monotonic()),
            ForgetFiles: lambda _: self.close(),
        }

    @property
    def is_ready(self) -> bool:
        """Something can be sent now."""
        waits = self._lists or (self._sendings and self._window.is_open)
        return bool(waits) and self._link.backlog < SHORT_BACKLOG

    @property
    def due(self) -> float:
        return 0.0 if self.is_ready else math.inf

    def step(self, now: float) -> None:
        self._link.flush()  # what the other jobs have told goes first
        while self.is_ready and time.monotonic() < now + FILE_TIME:
            self.send_next()
            self._link.flush()

    def send_next(self) -> None:
        """Send a piece of a file, or a part of a list."""
        waiting = self._lists or self._sendings
        try:
            next(waiting[0])
        except StopIteration:
            del waiting[0]

    def close(self) -> None:
        """Nobody waits for any of it any more."""
        for each in self._lists + self._sendings:
            each.close()
        self._lists, self._sendings = [], []

    def _listing(self, asked: ListFiles) -> Generator[None]:
        found: dict[str, list[Any]] = {"files": [], "links": [], "unreadable": []}
        characters = 0
        for count, (kind, what) in enumerate(walk(asked.root, asked.names), 1):
            if kind in found:
                found[kind].append(what)
                characters += len(what if isinstance(what, str) else what[0])
            if count % BATCH == 0 or characters > BATCH_CHARACTERS:
                self._tell(FilesListed(asked.number, **found))
                found, characters = {kind: [] for kind in found}, 0
                yield
        self._tell(FilesListed(asked.number, **found))
        self._tell(FilesListEnded(asked.number, time.time_ns()))

    def _sending(self, asked: SendFile) -> Generator[None]:
        try:
            fd = open_below(asked.root, asked.path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            self._tell(failure(asked, error.strerror or str(error)))
            return
        try:
            yield from self._send_open(fd, asked)
        except OSError as error:
            self._tell(failure(asked, error.strerror or str(error)))
        finally:
            os.close(fd)

    def _send_open(self, fd: int, asked: SendFile) -> Iterator[None]:
        import hashlib  # only a run that gathers pays for it

        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            self._tell(failure(asked, "no regular file any more"))
            return
        end, offset = min(asked.size, before.st_size), asked.offset
        at, digest = 0, hashlib.sha256()
        while at < offset and (data := os.pread(fd, min(PIECE, offset - at), at)):
            digest.update(data)
            at += len(data)
            yield
        if at != offset or (offset and digest.hexdigest() != asked.sha256):
            at, digest = 0, hashlib.sha256()
        while at < end and (data := os.pread(fd, min(self._window.piece, end - at), at)):
            digest.update(data)
            self._tell(FilePiece(asked.number, at, data))
            self._window.sent(len(data), time.monotonic())
            at += len(data)
            yield
        after = os.fstat(fd)
        unchanged = at == after.st_size and after.st_ctime_ns == before.st_ctime_ns  # nobody can set it back
        self._tell(FileSent(asked.number, at, digest.hexdigest(), before.st_mtime_ns, unchanged))


def failure(asked: SendFile, reason: str) -> FilesFailed:
    return FilesFailed(asked.number, asked.path, "", reason)


def walk(root: str, names: list[str]) -> Iterator[tuple[str, Any]]:
    """All that is below `root`/name: a regular file is ("files", (path below root, size, mtime in ns)).

    A symbolic link is followed nowhere: ("links", path). What cannot be read: ("unreadable", (path, reason)). A
    directory is told of before what is in it: ("directories", path).
    """
    waiting = ["" if name == EVERYTHING else name for name in reversed(names)]
    while waiting:
        path = waiting.pop()
        try:
            fd = open_below(root, path, os.O_PATH) if path else open_root(root)
        except (FileNotFoundError, NotADirectoryError):
            continue  # not there yet, or tidied up since
        except OSError as error:
            yield "unreadable", (path or EVERYTHING, error.strerror)
            continue
        try:
            found = os.fstat(fd)
            if stat.S_ISDIR(found.st_mode):
                waiting += below(fd, path)
                yield "directories", path or EVERYTHING
            elif stat.S_ISREG(found.st_mode) and not os.access(f"/proc/self/fd/{fd}", os.R_OK):
                yield "unreadable", (path, os.strerror(errno.EACCES))
            elif stat.S_ISREG(found.st_mode):
                yield "files", (path, found.st_size, found.st_mtime_ns)
            elif stat.S_ISLNK(found.st_mode):
                yield "links", path
        except OSError as error:
            yield "unreadable", (path or EVERYTHING, error.strerror)
        finally:
            os.close(fd)


def below(directory: int, path: str) -> list[str]:
    """The paths of all that is in a directory, the last by name first."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)
    try:
        names = os.listdir(fd)
    finally:
        os.close(fd)
    shown = (path_text(os.fsencode(name)) for name in names)
    return sorted((f"{path}/{name}" if path else name for name in shown), reverse=True)


def path_text(path: bytes) -> str:
    """A path as it is on the wire: UTF-8, each byte that is none a surrogate, whatever this host's locale says."""
    return path.decode("utf-8", "surrogateescape")


def path_bytes(path: str) -> bytes:
    """The path of a file here, from the one on the wire."""
    return path.encode("utf-8", "surrogateescape")


def open_root(root: str) -> int:
    """Open a directory that the launcher names, for what `open_below` does with it."""
    return os.open(path_bytes(root), os.O_PATH | os.O_DIRECTORY)


def open_below(root: str, path: str, flags: int) -> int:
    """Open `path` below `root`; no symbolic link on the way to it is followed, nor is it one.

    With O_PATH the link itself is opened.

    Raises:
        OSError: there is no such file, or the path could lead out of `root`.
    """
    directory, name = open_above(open_root(root), path)
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    finally:
        os.close(directory)


def open_above(root: int, path: str, *, make: bool = False) -> tuple[int, bytes]:
    """Open the directory that `path` below `root` is in, through no symbolic link; return it, and the name there.

    Args:
        root: an open directory; it is closed.
        path: below it.
        make: directories that are missing are made.

    Raises:
        OSError: there is no such directory, or the path could lead out of `root`.
    """
    *above, last = path_bytes(path).split(b"/")
    directory = root
    try:
        if any(name in (b"", b".", b"..") or b"\0" in name for name in (*above, last)):
            raise FileNotFoundError(errno.ENOENT, "no path below the directory")
        for name in above:
            deeper = _opened_in(directory, name, make)
            os.close(directory)
            directory = deeper
    except OSError:
        os.close(directory)
        raise
    return directory, last


def _opened_in(directory: int, name: bytes, make: bool) -> int:
    try:
        return os.open(name, BELOW, dir_fd=directory)
    except FileNotFoundError:
        if not make:
            raise
    os.mkdir(name, 0o700, dir_fd=directory)
    return os.open(name, BELOW, dir_fd=directory)
