"""The text of a file that the user wrote, and what is wrong with it, each mistake with its place."""

from __future__ import annotations

import codecs
import os
import re
import stat
from pathlib import Path
from typing import Any, NoReturn, Protocol

from launcher.cluster.redaction.commands import redacted_line
from launcher.errors import ClusterFileError, Mistake

MAX_BYTES = 1 << 20
MAX_MISTAKES = 100

UNREAD: Any = type("Unread", (), {"__repr__": lambda _: "UNREAD"})()
"""Stands for a value that is wrong; the mistake has been noted."""

# What YAML 1.1 does not allow in a file, section 5.1. (All that it does allow, turned round, takes 18 ms to compile.)
_NOT_PRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]|\ufffe|\uffff")


class Placed(Protocol):
    """Something that stands at a place in the file; lines and columns count from 1."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


class Mistakes:
    """Collects what is wrong with one file. `MAX_MISTAKES` are enough: then the reading ends."""

    def __init__(self, file: str) -> None:
        self.file = file if file.isprintable() else ascii(file)
        self._found: dict[Mistake, None] = {}
        self._times = 0

    def add(self, placed: Placed, message: str) -> Any:
        """Note a mistake; returns `UNREAD`, which then takes the value's place."""
        self.add_at(placed.line, placed.column, message)
        return UNREAD

    def add_at(self, line: int, column: int, message: str) -> None:
        """Note a mistake at a place. Each counts once, however often an alias repeats it."""
        self._found.setdefault(Mistake(line, column, message))
        self._times += 1
        if self._times >= MAX_MISTAKES:
            last = max(self._found)
            end = Mistake(last.line, last.column, f"reading stopped after {MAX_MISTAKES} mistakes; there may be more")
            raise ClusterFileError(self.file, [*self._found, end])

    def fail(self, line: int, column: int, message: str) -> NoReturn:
        """Note a mistake after which nothing more can be read."""
        self.add_at(line, column, message)
        raise ClusterFileError(self.file, self._found)

    def check(self) -> None:
        """Raise `ClusterFileError` if there is any mistake."""
        if self._found:
            raise ClusterFileError(self.file, self._found)


def shortened(text: str) -> str:
    """A text for a message: quoted, on one line, not long, and without the secrets in it."""
    text = unsecret(text)
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def unsecret(text: str) -> str:
    """A text of the file as messages repeat it. This must come before anything is cut off."""
    return redacted_line(text)


def read_text(path: Path, mistakes: Mistakes) -> str:
    """The text of a file, or `ClusterFileError` if it cannot be a YAML file."""
    data = _read_bytes(path, mistakes)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        mistakes.fail(1, 1, "the file is UTF-16; save it as UTF-8")
    text = _decoded(data.removeprefix(codecs.BOM_UTF8), mistakes)
    if found := _NOT_PRINTABLE.search(text):
        line, column = _place(text, found.start())
        mistakes.fail(line, column, f"control character {found[0]!a}; YAML allows none: remove it")
    return text


def _read_bytes(path: Path, mistakes: Mistakes) -> bytes:
    try:
        _require_regular(path.stat(), mistakes)
        # Never waits, also where a pipe has taken the file's place since.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            _require_regular(os.fstat(descriptor), mistakes)
            data = file.read(MAX_BYTES + 1) or b""  # None: below /proc some wait like a pipe
    except FileNotFoundError:
        mistakes.fail(0, 0, "there is no such file; check the path given to --cluster")
    except OSError as error:
        mistakes.fail(0, 0, f"the file cannot be read: {error.strerror}")
    if len(data) > MAX_BYTES:
        mistakes.fail(0, 0, _too_large("more than 1 MiB"))
    return data


def _require_regular(status: os.stat_result, mistakes: Mistakes) -> None:
    if stat.S_ISDIR(status.st_mode):
        mistakes.fail(0, 0, "this is a directory; name a YAML file in it")
    if not stat.S_ISREG(status.st_mode):
        mistakes.fail(0, 0, "this is a pipe, a socket or a device; a cluster file must be a regular file")
    if status.st_size > MAX_BYTES:
        mistakes.fail(0, 0, _too_large(f"{status.st_size:,} bytes"))


def _too_large(size: str) -> str:
    return f"the file has {size}; a cluster file has at most {MAX_BYTES:,} bytes: is it the right file?"


def _decoded(data: bytes, mistakes: Mistakes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _place(data[: error.start].decode("utf-8"), None)
        found = f"byte 0x{data[error.start]:02x} (number {error.start + 1} of the text) is not UTF-8"
        mistakes.fail(line, column, f"{found}; save the file as UTF-8")


def _place(text: str, index: int | None) -> tuple[int, int]:
    """Line and column of an index (None: the end), both from 1."""
    before = text[:index]
    return before.count("\n") + 1, len(before) - before.rfind("\n")
