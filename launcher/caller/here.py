"""The directory in which `launch` was called. It may be gone before the run is over, so it is asked for once.

Paths of the command line begin there, and messages show paths as a person in it would type them.
"""

from __future__ import annotations

import os

_taken: list[str] = []


def take() -> None:
    """Remember it for as long as this process lives.

    Raises:
        OSError: it is gone already.
    """
    _taken[:] = [os.getcwd()]  # noqa: PTH109 - importing pathlib takes longer than all of this


def here() -> str:
    """Its absolute path: as it was taken, else as it is now.

    Raises:
        OSError: it was not taken, and is gone.
    """
    return _taken[0] if _taken else os.getcwd()  # noqa: PTH109
