"""What a command prints for whoever called it: plans, records, reports. The workers' lines are the console's."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from launcher.errors import LaunchError


def write_out(text: str) -> None:
    """Write all of a text to stdout, now. A reader that has gone (`| true`) wanted no more, which is no failure.

    Raises:
        LaunchError: it cannot be written.
    """
    with writing_out():
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


@contextlib.contextmanager
def writing_out() -> Iterator[None]:
    """What is printed meanwhile is written at the end, under the same rules; it ends where the reader has gone.

    Raises:
        LaunchError: it cannot be written.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        _forget_the_rest(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise LaunchError(f"stdout cannot be written: {error.strerror}") from error


def write_error(text: str) -> None:
    """Write lines to stderr. Where they cannot be written there is nobody left to tell."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        _forget_the_rest(sys.stderr)


def _forget_the_rest(stream: TextIO) -> None:
    """Python writes what is left once more when it ends, and a failure then is an exit code of its own: 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
