"""Files that the launcher sends for a run: what workers need of tf-launch on a host where it is not installed."""

from __future__ import annotations

import contextlib
import os

from launcher.on_host.agent.below import directory_below, remove_below, write_below


def write_files(directory: int, files: list[tuple[str, int]], body: bytes) -> None:
    """Write `files` (path below `directory` and size of each) from `body`, in which they follow each other.

    Raises:
        OSError: no room, no permission...
    """
    open_ones = {"": directory}
    at = 0
    try:
        for path, size in files:
            above, _, name = path.rpartition("/")
            write_below(_opened(open_ones, above), name, body[at : at + size])
            at += size
    finally:
        del open_ones[""]
        for each in open_ones.values():
            os.close(each)


def _opened(open_ones: dict[str, int], path: str) -> int:
    if path not in open_ones:
        above, _, name = path.rpartition("/")
        open_ones[path] = directory_below(_opened(open_ones, above), name)
    return open_ones[path]


def remove_older(directory: int, files: list[tuple[str, int]]) -> None:
    """Remove the files that earlier launches of the run have sent."""
    current = {path.partition("/")[0] for path, _ in files}
    kinds = {name.partition("-")[0] for name in current}
    for name in os.listdir(directory):
        if name not in current and name.partition("-")[0] in kinds:
            with contextlib.suppress(OSError):  # nothing uses it, and hosts that share a disk all do this
                remove_below(directory, name)
