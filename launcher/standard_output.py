"""What a command prints for whoever called it: plans, records, reports. The workers' lines are the console's."""

from __future__ import annotations

import os
import sys

from launcher.errors import LaunchError


def write_out(text: str) -> None:
    """Write all of a text to stdout, now. A reader that has gone (`| true`) wanted no more, which is no failure.

    Raises:
        LaunchError: it cannot be written.
    """
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.flush()
    except OSError as error:
        _forget_the_rest()
        if not isinstance(error, BrokenPipeError):
            raise LaunchError(f"stdout cannot be written: {error.strerror}") from error


def _forget_the_rest() -> None:
    """Python writes what is left once more when it ends, and a failure then is an exit code of its own: 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
