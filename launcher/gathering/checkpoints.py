"""TensorFlow's checkpoints among the files of a directory: which belong together, and which are whole. Pure.

A checkpoint `step-5` is `step-5.index` and one or more `step-5.data-00000-of-00001`. TensorFlow 2.21 writes the shards
under another name, renames them, writes the index after that, and last replaces the file `checkpoint`, which names the
newest one. A checkpoint that is overwritten goes through the same steps, so an index older than a shard is the old one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from launcher.gathering.remote_files import RemoteFile

INDEX_END = bytes.fromhex("57fb808b247547db")
"""The magic number that ends a table (`tensorflow/core/lib/io/format.h`): an index without it is not whole yet."""

_SHARD = re.compile(r"(?s)(.+)\.data-(\d{5,18})-of-(\d{5,18})")
_INDEX = re.compile(r"(?s)(.+)\.index")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of one prefix."""

    prefix: str
    """Path of the index without `.index`."""
    index: RemoteFile | None
    shards: tuple[RemoteFile, ...]
    missing: int
    """How many shards there must be besides these."""

    @property
    def files(self) -> tuple[RemoteFile, ...]:
        """In the order in which they are put in place: no reader finds an index without its shards."""
        return (*self.shards, self.index) if self.index else self.shards

    @property
    def complete(self) -> bool:
        return self.index is not None and not self.missing

    @property
    def consistent(self) -> bool:
        """The index was written after the shards, as it is when both come from one save."""
        return self.index is not None and all(self.index.mtime_ns >= shard.mtime_ns for shard in self.shards)

    @property
    def mtime_ns(self) -> int:
        return max(file.mtime_ns for file in self.files)


def prefix_of(path: str) -> str | None:
    """The prefix that a file's name makes it belong to; None: its name is not that of a checkpoint's file."""
    found = _SHARD.fullmatch(path) or _INDEX.fullmatch(path)
    return found[1] if found else None


def checkpoints_among(files: Iterable[RemoteFile]) -> dict[str, Checkpoint]:
    """Every checkpoint, by prefix. A lone `.index` is none: there are other files of that name."""
    indices: dict[str, RemoteFile] = {}
    shards: dict[str, dict[int, dict[int, RemoteFile]]] = {}
    for file in files:
        if found := _SHARD.fullmatch(file.path):
            prefix, number, count = found[1], int(found[2]), int(found[3])
            shards.setdefault(prefix, {}).setdefault(count, {})[number] = file
        elif found := _INDEX.fullmatch(file.path):
            indices[found[1]] = file
    return {prefix: _checkpoint(prefix, indices.get(prefix), counts) for prefix, counts in shards.items()}


def _checkpoint(prefix: str, index: RemoteFile | None, counts: dict[int, dict[int, RemoteFile]]) -> Checkpoint:
    """An overwritten checkpoint may have left shards of another count behind: the newest count is meant."""
    count = max(counts, key=lambda count: max(file.mtime_ns for file in counts[count].values()))
    found = {number: file for number, file in counts[count].items() if number < count}
    return Checkpoint(prefix, index, tuple(found[number] for number in sorted(found)), count - len(found))
