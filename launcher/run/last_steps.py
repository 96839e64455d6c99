"""What is left to do when a run is over, step by step: what fails in one is told, and takes nothing from the others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from launcher.errors import LaunchError
from launcher.run_directory.whole_files import relative

Result = TypeVar("Result")


def whatever_comes(step: Callable[[], Result], complain: Callable[[str], None]) -> Result | None:
    """Take a step; None: it failed, which has been told if anybody can be told."""
    try:
        return step()
    except Exception as error:
        with contextlib.suppress(Exception):  # whoever would be told is what has failed
            complain(told(error))
        return None


def told(error: Exception) -> str:
    """One error as the user reads it; one that nobody has thought of with the line that it comes from."""
    match error:
        case LaunchError():
            return str(error)
        case OSError(filename=str() | bytes() as name, strerror=str() as reason):
            return f"{relative(Path(os.fsdecode(name)))}: {reason}"
        case OSError(strerror=str() as reason):
            what = reason
        case _:
            what = f"{type(error).__name__}: {error}"
    import traceback  # 2 ms of each start, were it at the top

    *_, frame = traceback.extract_tb(error.__traceback__) or [None]
    where = f" ({Path(frame.filename).name}, line {frame.lineno})" if frame else ""
    return f"at the end of the run: {what}{where}; the run itself is not affected"
