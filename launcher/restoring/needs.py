"""What workers must find in their output directory to go on where the chief's newest checkpoint ends. Pure.

Of each series of checkpoints only the newest complete one counts. A series is what differs in nothing but numbers:
`step-10` and `step-20`, `cp-0001.ckpt` and `cp-0002.ckpt`, `epoch-3-loss-0.21.keras` and `epoch-4-loss-0.19.keras`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from launcher.gathering.checkpoints import checkpoints_among, is_of_one_save, prefix_of
from launcher.gathering.file_kinds import grows, lasting
from launcher.gathering.gathered import Batch
from launcher.gathering.remote_files import RemoteFile

LARGEST_OTHER = 16 << 20
"""Bytes of a file that is no checkpoint that anybody knows, at most: what a program notes for itself is small."""
MOST_OTHERS, MOST_OTHER_FILES = 64 << 20, 1000
"""Bytes of all of them, and how many; the newest first."""

_WEIGHTS = re.compile(r"(?s).*\.(?:keras|h5|hdf5)(?:\.bkp)?")
_SHARDED_WEIGHTS = re.compile(r"(?s)(.*)\.weights\.json")
_SHARD_OF_WEIGHTS = re.compile(r"(?s)(.*)_\d{5}\.weights\.h5")
_DIRECTORY_MARKS = ("saved_model.pb", "_CHECKPOINT_METADATA")
"""A file that makes the directory a checkpoint as a whole: of Keras 2 (a SavedModel), of Orbax."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a restart needs of one output directory."""

    checkpoints: tuple[Batch, ...]
    state_files: tuple[RemoteFile, ...]
    """TensorFlow's `checkpoint`: put in place after what it names."""
    others: tuple[Batch, ...]
    """What else is there and may be a program's own note of how far it is."""

    @property
    def files(self) -> tuple[RemoteFile, ...]:
        batches = (file for batch in (*self.others, *self.checkpoints) for file in batch.files)
        return (*batches, *self.state_files)

    @property
    def tensorflow(self) -> tuple[Batch, ...]:
        """Those of the checkpoints that a file called `checkpoint` may name."""
        return tuple(batch for batch in self.checkpoints if prefix_of(batch.files[0].path) == batch.name)

    @property
    def age(self) -> tuple[int, int]:
        """The greater, the newer; checkpoints count before all else."""
        return _newest(self.checkpoints), _newest(self.others)


def needs_of(files: Iterable[RemoteFile], named: Iterable[str] = ()) -> Needs:
    """What a restart needs of these files of an output directory.

    Args:
        files: all that are there.
        named: prefixes that files called `checkpoint` name: each is needed, too, if it is complete.
    """
    left = {file.path: file for file in lasting(files)}
    state_files = tuple(file for file in left.values() if file.is_state)
    directories = [*_taken(_whole_directories(left), left)]
    checkpoints = [*_taken(_tensorflow(left), left)]
    weights = [*_taken(_keras(left), left)]
    wanted = [batch for batch in checkpoints if batch.name in named]
    newest = _newest_of_each_series([*directories, *checkpoints, *weights])
    loose = {file for file in left.values() if prefix_of(file.path) is None and file not in state_files}
    return Needs(tuple(dict.fromkeys([*wanted, *newest])), state_files, tuple(_small(loose)))


def is_newer_here(chief: Needs, here: Needs, *, intact: bool) -> bool:
    """Whether to start from what this machine has. Both clocks are the chief's: what was gathered has its time.

    `intact`: the chief's host was there all the time. What it has no more was removed on purpose, by the program.
    """
    return chief.age < here.age and not (intact and chief.checkpoints)


def series(name: str) -> str:
    """The name of the series that a checkpoint belongs to: of each the newest is needed."""
    return re.sub(r"\d+", "#", name)


def lacking(needs: Sequence[RemoteFile], there: Mapping[str, RemoteFile]) -> list[RemoteFile]:
    """Those of the files that a host does not have, by path, size and time of modification."""
    return [file for file in needs if there.get(file.path) != file]


def _taken(batches: Iterable[Batch], left: dict[str, RemoteFile]) -> Iterator[Batch]:
    """These batches. Their files are taken out of `left`, so that nothing else counts them."""
    for batch in list(batches):
        for file in batch.files:
            left.pop(file.path, None)
        yield batch


def _whole_directories(files: Mapping[str, RemoteFile]) -> Iterator[Batch]:
    marked = sorted({file.directory for file in files.values() if file.name in _DIRECTORY_MARKS and file.directory})
    outermost = [each for each in marked if not any(each.startswith(f"{other}/") for other in marked)]
    for directory in outermost:
        inside = [file for file in files.values() if file.path.startswith(f"{directory}/")]
        yield Batch(
            directory, tuple(sorted(inside, key=lambda file: file.name in _DIRECTORY_MARKS)), is_checkpoint=True
        )


def _tensorflow(files: Mapping[str, RemoteFile]) -> Iterator[Batch]:
    """The complete ones. An index that is older than its data is half of a save that was cut short."""
    for each in checkpoints_among(files.values()).values():
        if not each.missing and is_of_one_save(each):
            yield each


def _keras(files: Mapping[str, RemoteFile]) -> Iterator[Batch]:
    sharded = {found[1]: path for path in files if (found := _SHARDED_WEIGHTS.fullmatch(path))}
    shards: dict[str, list[RemoteFile]] = {prefix: [] for prefix in sharded}
    for path, file in files.items():
        if (found := _SHARD_OF_WEIGHTS.fullmatch(path)) and found[1] in shards:
            shards[found[1]].append(file)
        elif _WEIGHTS.fullmatch(path):
            yield Batch(path, (file,), is_checkpoint=True)
    for prefix, each in shards.items():
        yield Batch(sharded[prefix], (*each, files[sharded[prefix]]), is_checkpoint=True)


def _newest_of_each_series(batches: Iterable[Batch]) -> list[Batch]:
    newest: dict[str, Batch] = {}
    for batch in batches:
        known = newest.setdefault(series(batch.name), batch)
        if (batch.mtime_ns, batch.name) > (known.mtime_ns, known.name):
            newest[series(batch.name)] = batch
    return list(newest.values())


def _small(files: Iterable[RemoteFile]) -> Iterator[Batch]:
    left = MOST_OTHERS
    fitting = [file for file in files if file.size <= LARGEST_OTHER and not grows(file.path)]
    for file in sorted(fitting, key=lambda file: (-file.mtime_ns, file.path))[:MOST_OTHER_FILES]:
        if file.size <= left:
            left -= file.size
            yield Batch(file.path, (file,))


def _newest(batches: Iterable[Batch]) -> int:
    return max((batch.mtime_ns for batch in batches), default=-1)
