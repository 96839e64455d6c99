"""Writes files atomically, and formats paths for messages."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from launcher.caller.working_directory import working_directory
from launcher.errors import LaunchError

BLOCK = 512
"""Bytes: the unit of `st_blocks`."""


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically: a reader finds the old content or the new one, even after a crash. Mode 0600.

    No fsync: on a busy disk it takes seconds, in which the launcher would handle no events. A power cut may cost the
    file.

    Raises:
        LaunchError: it cannot be written; the old content stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write_file(temporary, content)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise LaunchError(f"{shown(path)}: cannot be written: {error.strerror}.") from error


def write_over(path: Path, content: bytes) -> bool:
    """Overwrite a file in place, for a full disk. Return False if its blocks are too few for the new content.

    A crash in the middle costs the file.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if os.fstat(fd).st_blocks * BLOCK < len(content):
            return False
        write_all_at(fd, content, 0)
        os.ftruncate(fd, len(content))
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _write_file(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)  # left by a process that was killed
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, content)
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Make a directory and missing parents, accessible for their owner only.

    Raises:
        OSError: it cannot be made.
    """
    try:
        path.mkdir(mode=0o700)
    except FileNotFoundError:
        make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        if not path.is_dir():
            raise


def write_all(fd: int, content: bytes) -> None:
    """Write the whole content to an open file."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def write_all_at(fd: int, content: bytes, offset: int) -> None:
    """Write the whole content at an offset of an open file."""
    rest = memoryview(content)
    while rest:
        written = os.pwrite(fd, rest, offset)
        rest, offset = rest[written:], offset + written


def holds_something(path: Path) -> bool:
    """Whether a file exists and is not empty; False if that cannot be seen."""
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def shown(path: Path) -> str:
    """A path for a message, on one readable line: it may contain newlines, or bytes that are not UTF-8."""
    text = str(path)
    return text if text.isprintable() else repr(text)


def relative(path: str | Path) -> str:
    """A path relative to the working directory if it is below it, for a message."""
    path = Path(path)
    with contextlib.suppress(OSError, ValueError):  # this directory is gone, or the path is not below it
        return shown(path.relative_to(working_directory()))
    return shown(path)
