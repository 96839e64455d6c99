"""Writes a command's own output: plans, records, reports. The workers' lines go through the console."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from launcher.errors import LaunchError


def write_out(text: str) -> None:
    """Write a text to stdout and flush it. A reader that has closed the pipe (`| true`) is no failure.

    Raises:
        LaunchError: it cannot be written.
    """
    with writing_out():
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


@contextlib.contextmanager
def writing_out() -> Iterator[None]:
    """Flush at the end of the block what was printed in it, under the same rules. A closed pipe ends the block early.

    Raises:
        LaunchError: it cannot be written.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        _discard_unwritten(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise LaunchError(f"stdout cannot be written: {error.strerror}") from error


def write_error(text: str) -> None:
    """Write lines to stderr. If that fails, there is nowhere left to report it."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        _discard_unwritten(sys.stderr)


def _discard_unwritten(stream: TextIO) -> None:
    """Redirect a broken stream to /dev/null: Python flushes it again at exit, and a failure there exits with 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
