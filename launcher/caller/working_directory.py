"""The directory in which `launch` was called. It may be removed during the run, so it is looked up only once.

Paths on the command line are relative to it, and messages show paths as a person would type them there.
"""

from __future__ import annotations

from pathlib import Path

_remembered: list[str] = []


def remember_working_directory() -> None:
    """Look it up and remember it.

    Raises:
        OSError: it was removed already.
    """
    _remembered[:] = [str(Path.cwd())]


def working_directory() -> str:
    """Its absolute path: the remembered one, else the current one.

    Raises:
        OSError: none was remembered, and the current one was removed.
    """
    return _remembered[0] if _remembered else str(Path.cwd())
