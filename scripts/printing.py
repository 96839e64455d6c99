"""Lines for whoever reads them. Python 3.9 or later."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def put(line: str, stream: TextIO) -> None:
    """Print a line now. A reader that has gone (`| head`) wants no more of it, and changes nothing else."""
    try:
        print(line, file=stream, flush=True)
    except BrokenPipeError:
        _forget(stream)


def finish() -> None:
    """Write what else was printed, like `--help`: that Python cannot do it at its end would be an exit code, 120."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except BrokenPipeError:
            _forget(stream)


def _forget(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
