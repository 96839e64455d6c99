"""The frames of a Python traceback, as they stand in a log: which of them are the user's own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

FRAME = re.compile(r'[ |]*File "(?P<path>[^"]+)", line (?P<line>\d+)')
_LIBRARY = re.compile(
    r"site-packages/|dist-packages/|/lib(?:64)?/python3\.\d+/|__autograph_generated_file|^<(?!stdin>)|\.pyx$"
)
_BROUGHT_BY_US = re.compile(
    r"(?:^|/)training/keras_fix/\w+\.py$|(?:^|/)launcher/(?:on_host/)?bootstrap/\w+\.py$"
    r"|-[0-9a-f]{16}/support-[0-9a-f]{16}/(?:keras_fix/)?\w+\.py$"
)
"""What `launch` brings into every worker: from this checkout, and from a run's directory on a host behind ssh."""


def is_own(path: str) -> bool:
    """Whether a file is part of the program: no library, and nothing that `launch` brought into the process."""
    return not _LIBRARY.search(path) and not _BROUGHT_BY_US.search(path)


def own_places(lines: Iterable[str]) -> list[str]:
    """`file:line` of each frame of the program's own, outermost first."""
    found = filter(None, map(FRAME.match, lines))
    return [f"{frame['path']}:{frame['line']}" for frame in found if is_own(frame["path"])]


def without_foreign_frames(lines: Iterable[str]) -> list[str]:
    """The lines of a traceback without the frames, and the quoted code, of everything that is not the program's own."""
    kept: list[str] = []
    foreign = False
    for line in lines:
        frame = FRAME.match(line)
        if frame or not line.startswith("    "):
            foreign = bool(frame and not is_own(frame["path"]))
        if not foreign and line.strip(" ^~"):
            kept.append(line)
    return kept
