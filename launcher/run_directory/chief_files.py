"""What the chief left below its output directory: what of it there is, and how far its checkpoints have come."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_CHECKPOINT_INDEX = re.compile(r"-(\d+)\.index$")
_UNITS = ("B", "kB", "MB", "GB", "TB")


class Kept(NamedTuple):
    """One of the names that a cluster file wants collected: how many files it holds, and how large they are."""

    name: str
    files: int
    size: int
    """Bytes."""

    def __str__(self) -> str:
        return f"{self.name} ({self.files} file{'' if self.files == 1 else 's'}, {readable_size(self.size)})"


def kept(output_dir: Path, names: Sequence[str]) -> list[Kept]:
    """Those of `names` that exist below the output directory."""
    found = []
    for name in names:
        sizes = [entry.stat(follow_symlinks=False).st_size for entry in _files(output_dir / name)]
        if sizes:
            found.append(Kept(name, len(sizes), sum(sizes)))
    return found


def newest_step(output_dir: Path) -> int | None:
    """The highest number of a TensorFlow checkpoint (`<prefix>-<number>.index`); None: there is none."""
    numbers = [int(found[1]) for entry in _files(output_dir) if (found := _CHECKPOINT_INDEX.search(entry.name))]
    return max(numbers, default=None)


def _files(directory: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    yield entry
    except (FileNotFoundError, NotADirectoryError):
        return  # nothing was kept there, or a worker has just tidied it up


def readable_size(size: float) -> str:
    """A number of bytes as a person reads it: `3.9 MB`."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")
