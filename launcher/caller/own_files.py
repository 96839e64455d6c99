"""Reads files that decide which programs are started, only if nobody but this user can have written them.

Each file is opened first and checked by its descriptor, so that nobody can swap it between check and use.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
LARGEST = 1 << 24
"""Bytes; no launcher writes a longer file."""


class ForeignError(Exception):
    """Another user may have written a file; the message says who, and what to do."""


@contextlib.contextmanager
def own_directory(path: str | os.PathLike[str]) -> Iterator[int]:
    """Open a directory within this block; yields its descriptor.

    Raises:
        ForeignError: another user owns it or may write in it.
        OSError: it cannot be opened.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError as error:
        owner = Path(path).stat().st_uid
        if owner == os.geteuid():
            raise
        raise ForeignError(_another_users(owner, path)) from error
    try:
        refuse_foreign(fd, path)
        yield fd
    finally:
        os.close(fd)


def open_own(directory: int, name: str, path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a file in an open directory. `path`: the directory's path, for messages.

    Raises:
        ForeignError: another user owns it or may write to it.
        OSError: it cannot be opened, or is no regular file.
    """
    fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{os.fspath(path)}/{name} is no regular file")
        refuse_foreign(fd, f"{os.fspath(path)}/{name}")
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_own(path: str | os.PathLike[str], name: str, largest: int = LARGEST) -> bytes:
    """The content of a file in a directory.

    Raises:
        ForeignError: another user owns the directory or the file, or may write to one of them.
        OSError: it cannot be read, is no regular file, or is longer than `largest`.
    """
    with own_directory(path) as directory, open(open_own(directory, name, path), "rb") as file:
        content = file.read(largest + 1)
        if len(content) > largest:
            raise OSError(f"{os.fspath(path)}/{name} is longer than {largest} bytes")
        return content


def refuse_foreign(fd: int, path: str | os.PathLike[str]) -> None:
    """Check that an open file belongs to this user and is writable for nobody else.

    Raises:
        ForeignError: it is not.
    """
    found = os.fstat(fd)
    if found.st_uid != os.geteuid():
        raise ForeignError(_another_users(found.st_uid, path))
    if found.st_mode & WRITABLE_BY_OTHERS:
        text, word = _shown(path)
        raise ForeignError(
            f"{text} can be written by others (mode {stat.S_IMODE(found.st_mode):04o}), and programs are started as it "
            f"says. Look at what it says, then take that right away: chmod go-w {word}"
        )


def _another_users(uid: int, path: str | os.PathLike[str]) -> str:
    owner, (text, word) = _user_name(uid), _shown(path)
    return (
        f"{text} belongs to {owner}, not to {_user_name(os.geteuid())}, and programs are started as it says. "
        f"Do this as its owner (sudo -u {owner} ...), or with a copy of your own (cp -r {word} ...)"
    )


def _shown(path: str | os.PathLike[str]) -> tuple[str, str]:
    """A path as text for a message, and as a word of a command."""
    text = os.fspath(path)
    return (text, shlex.quote(text)) if text.isprintable() else (repr(text), "PATH")


def _user_name(uid: int) -> str:
    """The user's name, or without one `#` and the number, which sudo accepts."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"
