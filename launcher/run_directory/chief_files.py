"""What the chief left below its output directory: what of it there is, and how far its checkpoints have come."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from launcher.on_host.agent.files import EVERYTHING, walk
from launcher.run_directory.whole_files import relative, shown
from launcher.wording import counted, exact_size

MOST_NAMES = 6
"""So many names stand in a line; the others are counted."""

_CHECKPOINT_INDEX = re.compile(r"-(\d{1,18})\.index\Z")


def kept_line(output_dir: Path) -> str | None:
    """The line that tells of the files, and of what cannot be read; None: there is nothing."""
    files, unreadable = files_below(output_dir)
    sizes = {path: size for path, size, _ in files}
    told = [*([summary(sizes)] if sizes else []), *([unread(unreadable)] if unreadable else [])]
    return f"the chief's files, in {relative(output_dir)}: {'; '.join(told)}" if told else None


def unread(places: Mapping[str, str]) -> str:
    """Paths below a directory that could not be read, and why, as one short line."""
    named = [f"{shown(Path(place))} ({reason})" for place, reason in places.items()]
    more = f" and {len(named) - MOST_NAMES} more" if len(named) > MOST_NAMES else ""
    return f"cannot be read: {', '.join(named[:MOST_NAMES])}{more}"


def summary(files: Mapping[str, int]) -> str:
    """Paths below a directory, and bytes of each, as one short line: what lies side by side in it."""
    sizes: dict[str, list[int]] = {}
    for path, size in files.items():
        sizes.setdefault(path.partition("/")[0], []).append(size)
    named = sorted(sizes)[: MOST_NAMES if len(sizes) > MOST_NAMES + 1 else None]
    told = [(shown(Path(name)), sizes.pop(name)) for name in named]
    if sizes:
        told.append((f"{len(sizes)} more", [size for each in sizes.values() for size in each]))
    return ", ".join(f"{name} ({counted(len(each), 'file')}, {exact_size(sum(each))})" for name, each in told)


def newest_step(output_dir: Path) -> int | None:
    """The highest number of a TensorFlow checkpoint (`<prefix>-<number>.index`); None: there is none to be read."""
    files, _ = files_below(output_dir)
    return max((int(found[1]) for path, *_ in files if (found := _CHECKPOINT_INDEX.search(path))), default=None)


def files_below(output_dir: Path) -> tuple[list[tuple[str, int, int]], dict[str, str]]:
    """Path, size and time (ns) of each file, as agents tell it of other hosts; what cannot be read, and why."""
    files: list[tuple[str, int, int]] = []
    unreadable: dict[str, str] = {}
    for kind, what in walk(os.fsencode(output_dir).decode("utf-8", "surrogateescape"), [EVERYTHING]):
        if kind == "files":
            files.append(what)
        elif kind == "unreadable":
            unreadable[what[0]] = what[1]
    return files, unreadable
