"""The directory in which `launch` was called. It may be gone before the run is over, so it is asked for once.

Paths of the command line begin there, and messages show paths as a person in it would type them.
"""

from __future__ import annotations

from pathlib import Path

_remembered: list[str] = []


def remember_working_directory() -> None:
    """Remember it for as long as this process lives.

    Raises:
        OSError: it is gone already.
    """
    _remembered[:] = [str(Path.cwd())]


def working_directory() -> str:
    """Its absolute path: as it was remembered, else as it is now.

    Raises:
        OSError: it was not remembered, and is gone.
    """
    return _remembered[0] if _remembered else str(Path.cwd())
