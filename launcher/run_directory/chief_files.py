"""What the chief left below its output directory: what of it there is, and how far its checkpoints have come."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from launcher.run_directory.whole_files import relative

_CHECKPOINT_INDEX = re.compile(r"-(\d+)\.index$")


class Kept(NamedTuple):
    """One of the names that a cluster file wants collected: how many files it holds, and how large they are."""

    name: str
    files: int
    size: int
    """Bytes."""

    def __str__(self) -> str:
        from launcher.wording import counted, exact_size  # first needed when a run is over

        return f"{self.name} ({counted(self.files, 'file')}, {exact_size(self.size)})"


def kept_line(output_dir: Path, names: Sequence[str]) -> str | None:
    """What the user is told of them; None: there is nothing."""
    found = kept(output_dir, names)
    return f"the chief's files, in {relative(output_dir)}: {', '.join(map(str, found))}" if found else None


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
