"""What the chief left below its output directory: what of it there is, and how far its checkpoints have come."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from launcher.run_directory.whole_files import relative, shown

MOST_NAMES = 6
"""So many names stand in a line; the others are counted."""

_CHECKPOINT_INDEX = re.compile(r"-(\d+)\.index$")


def kept_line(output_dir: Path) -> str | None:
    """What the user is told of them; None: there is nothing."""
    start = len(str(output_dir)) + 1
    found = {entry.path[start:]: entry.stat(follow_symlinks=False).st_size for entry in _files(output_dir)}
    return f"the chief's files, in {relative(output_dir)}: {summary(found)}" if found else None


def summary(files: Mapping[str, int]) -> str:
    """Paths below a directory, and bytes of each, as one short line: what lies side by side in it."""
    from launcher.wording import counted, exact_size  # first needed when a run is over

    sizes: dict[str, list[int]] = {}
    for path, size in files.items():
        sizes.setdefault(path.partition("/")[0], []).append(size)
    named = sorted(sizes)[: MOST_NAMES if len(sizes) > MOST_NAMES + 1 else None]
    told = [(shown(Path(name)), sizes.pop(name)) for name in named]
    if sizes:
        told.append((f"{len(sizes)} more", [size for each in sizes.values() for size in each]))
    return ", ".join(f"{name} ({counted(len(each), 'file')}, {exact_size(sum(each))})" for name, each in told)


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
