"""TensorFlow's checkpoints among the files of a directory: which belong together, and which are complete. Pure.

A checkpoint `step-5` is `step-5.index` and one or more `step-5.data-00000-of-00001`. TensorFlow 2.21 writes the shards
under another name, renames them, writes the index after that, and last replaces the file `checkpoint`, which names the
newest one. A checkpoint that is overwritten goes through the same steps, so an index older than a shard is the old one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from launcher.gathering.file_kinds import lasting
from launcher.gathering.gathered import Batch
from launcher.gathering.remote_files import RemoteFile

INDEX_END = bytes.fromhex("57fb808b247547db")
"""The magic number that ends a table (`tensorflow/core/lib/io/format.h`): an index without it is not whole yet."""

_SHARD = re.compile(r"(?s)(.+)\.data-(\d{5,18})-of-(\d{5,18})")
_INDEX = re.compile(r"(?s)(.+)\.index")
_NUMBERED = re.compile(r"(?s).*-(\d{1,18})")


def prefix_of(path: str) -> str | None:
    """The prefix that a file's name makes it belong to; None: its name is not that of a checkpoint's file."""
    found = _SHARD.fullmatch(path) or _INDEX.fullmatch(path)
    return found[1] if found else None


def checkpoints_among(files: Iterable[RemoteFile]) -> dict[str, Batch]:
    """Every checkpoint, by prefix. A lone `.index` is none: there are other files of that name.

    Its shards come first, so that no reader finds an index without them.
    """
    indices: dict[str, RemoteFile] = {}
    shards: dict[str, dict[int, dict[int, RemoteFile]]] = {}
    for file in files:
        if found := _SHARD.fullmatch(file.path):
            prefix, number, count = found[1], int(found[2]), int(found[3])
            if number < count:
                shards.setdefault(prefix, {}).setdefault(count, {})[number] = file
        elif found := _INDEX.fullmatch(file.path):
            indices[found[1]] = file
    return {prefix: _checkpoint(prefix, indices.get(prefix), counts) for prefix, counts in shards.items()}


def _checkpoint(prefix: str, index: RemoteFile | None, counts: dict[int, dict[int, RemoteFile]]) -> Batch:
    """An overwritten checkpoint may have left shards of another count behind: the newest count is meant."""
    count = max(counts, key=lambda count: max(file.mtime_ns for file in counts[count].values()))
    shards = tuple(file for _, file in sorted(counts[count].items()))
    if index is None:
        return Batch(prefix, shards, is_checkpoint=True, missing="its index is not there")
    missing = f"{count - len(shards)} of its data files are not there" if len(shards) < count else ""
    return Batch(prefix, (*shards, index), is_checkpoint=True, missing=missing)


def is_of_one_save(checkpoint: Batch) -> bool:
    """Whether its index, which is last, was written after its shards."""
    return checkpoint.files[-1].mtime_ns == checkpoint.mtime_ns


def newest_step_among(files: Iterable[RemoteFile]) -> int | None:
    """The highest number of a complete checkpoint; None: there is none."""
    complete = [each.name for each in checkpoints_among(lasting(files)).values() if not each.missing]
    return max((int(found[1]) for name in complete if (found := _NUMBERED.fullmatch(name))), default=None)
