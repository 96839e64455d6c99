"""What is to be gathered next, in which order, and what may go here because the chief has gone on without it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from launcher.gathering.checkpoints import Checkpoint, checkpoints_among, prefix_of
from launcher.gathering.record import Entry
from launcher.gathering.remote_files import Listing, RemoteFile, is_below
from launcher.on_host.agent.files import EVERYTHING

SETTLE = 2.0
"""Seconds without a write after which a file of a running program is taken for finished."""

LARGE = 64 << 20
"""Bytes of a file that is brought again only at the end of the run, unless it is a checkpoint or only grows."""

_TEMPORARY = re.compile(
    r"""(?sx)
    (?:.*/)?workertemp_\d+/.*                  # another worker's than the chief's: Keras, TensorFlow's tutorials
    | .*_temp/part-\d+-of-\d+\.[^/]*           # the parts of a checkpoint under way
    | .*\.tempstate\d+                         # what a part is called before it is whole
    | .*\.tmp(?:[0-9a-f]{32})?                 # what TensorFlow, and most others, replace a file with
    | .*(?:~|\.swp)                            # an editor's
    | (?:.*/)?\.nfs[0-9a-f]{8,}                # removed while somebody had it open
    | .*\.orbax-checkpoint-tmp[^/]{0,255}/.*      # Keras' OrbaxCheckpoint
    """
)
_CACHE = re.compile(
    r"""(?sx)
    (?:.*/)?(?:__pycache__|\.?cache|\.ipynb_checkpoints)/.*
    | (?:.*/)?+(?=[^/]*cache)[^/]*\.(?:index|data-\d{5,}-of-\d{5,})  # tf.data's `cache`: they look like a checkpoint's
    | .*\.lockfile                                                  # tf.data's, while it writes them
    """
)
_GROWING = re.compile(r"(?s)(?:.*/)?events\.out\.tfevents\.[^/]*")


@dataclass(frozen=True, slots=True)
class Batch:
    """Files that are of use together only. They are put in place in this order, once all of them have come."""

    name: str
    """What a person calls it: the prefix of a checkpoint, a directory, else the path."""
    files: tuple[RemoteFile, ...]
    is_checkpoint: bool = False

    @property
    def is_noteworthy(self) -> bool:
        """A checkpoint of TensorFlow's or Keras', but not the variables of a SavedModel, which look the same."""
        if self.is_checkpoint:
            return not self.name.endswith("variables/variables")
        return self.name.endswith((".keras", ".weights.h5"))

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def mtime_ns(self) -> int:
        return max(file.mtime_ns for file in self.files)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list of the chief's files asks for."""

    wanted: tuple[Batch, ...]
    """In the order in which it is to be gathered."""
    waiting: Mapping[str, str]
    """What is not taken: name -> why."""
    stays: tuple[RemoteFile, ...] = ()
    """What was not asked for, caches, and steps on the way to another file."""


def is_temporary(path: str) -> bool:
    """Whether a file is a step on the way to another one, by its name."""
    return _TEMPORARY.fullmatch(path) is not None


def is_cache(path: str, names: Iterable[str] = (EVERYTHING,)) -> bool:
    """Whether a file was made to save time on its own host: one in a cache below these names. Who names it wants it."""
    named = [f"{path}/".removeprefix(f"{name}/").removesuffix("/") for name in names if is_below(path, [name])]
    return all(_CACHE.fullmatch(rest) for rest in named)


def grows(path: str) -> bool:
    """Whether a file is only ever appended to, and read by others meanwhile: TensorBoard's."""
    return _GROWING.fullmatch(path) is not None


def select(
    listing: Listing,
    is_here: Callable[[RemoteFile], bool],
    known: Mapping[str, Entry],
    names: Sequence[str] = (EVERYTHING,),
    *,
    final: bool,
) -> Selection:
    """Choose what is not here yet: the newest checkpoint first, `checkpoint` after all it may name, then the rest.

    Args:
        listing: what the chief has.
        is_here: whether a file is in place here as it is there.
        known: what was gathered before.
        names: what is asked for.
        final: nothing runs there any more.
    """
    files = [file for file in listing.files.values() if _is_asked_for(file.path, names)]
    stays = tuple(file for file in listing.files.values() if not _is_asked_for(file.path, names))
    checkpoints = checkpoints_among(files)
    waiting = {
        path: why
        for path, why in listing.left.items()
        if is_below(path, names) or not is_below(path, (EVERYTHING,))  # a name that cannot be taken for what it says
    }
    wanted = []
    for each in sorted(checkpoints.values(), key=lambda each: (-each.mtime_ns, each.prefix)):
        if reason := _unfinished(each, listing, known, final):
            waiting[each.prefix] = reason
        elif not all(map(is_here, each.files)):
            wanted.append(Batch(each.prefix, each.files, is_checkpoint=True))
    rest = [file for file in files if prefix_of(file.path) not in checkpoints and not is_here(file)]
    rest.sort(key=lambda file: (not file.is_state, -file.mtime_ns, file.path))
    single = [Batch(file.path, (file,)) for file in rest if final or _is_finished(file, listing)]
    wanted += [batch for batch in single if final or not _waits_for_the_end(batch, known)]
    return Selection(tuple(wanted), waiting, stays)


def _is_asked_for(path: str, names: Sequence[str]) -> bool:
    return is_below(path, names) and not is_temporary(path) and not is_cache(path, names)


def _unfinished(checkpoint: Checkpoint, listing: Listing, known: Mapping[str, Entry], final: bool) -> str | None:
    if checkpoint.index is None:
        return "its index is not there"
    if checkpoint.missing:
        return f"{checkpoint.missing} of its data files are not there"
    if not checkpoint.consistent and (
        any(file.path in known for file in checkpoint.files) or not (final or _settled(checkpoint, listing))
    ):
        # copied files may be older than others: that is fine, unless there is a good one here to be lost
        return "its index is older than its data"
    return None


def _is_finished(file: RemoteFile, listing: Listing) -> bool:
    """TensorFlow replaces `checkpoint` by rename, and what grows is good at any length."""
    return file.is_state or grows(file.path) or not 0 <= listing.age(file) < SETTLE


def _waits_for_the_end(batch: Batch, known: Mapping[str, Entry]) -> bool:
    """Something large that is written again and again, and that is here in an earlier version, would fill the link."""
    return batch.size > LARGE and batch.name in known and not batch.is_noteworthy and not grows(batch.name)


def _settled(checkpoint: Checkpoint, listing: Listing) -> bool:
    return not any(0 <= listing.age(file) < SETTLE for file in checkpoint.files)


def outdated(listing: Listing, is_here: Callable[[RemoteFile], bool], known: Mapping[str, Entry]) -> Iterator[str]:
    """Files that were gathered, and that the chief has no more: it has put something newer beside them since.

    A directory that is gone as a whole, or that starts anew, loses nothing here. The index of a checkpoint comes before
    its data: nobody who looks meanwhile, or after a crash, finds one that is not whole.
    """
    checkpoints = checkpoints_among(listing.files.values())
    newest: dict[tuple[str, bool], int] = {}
    for file in listing.files.values():
        prefix = prefix_of(file.path)
        whole = prefix not in checkpoints or all(map(is_here, checkpoints[prefix].files))
        if whole and is_here(file):
            kind = file.directory, prefix is not None
            newest[kind] = max(newest.get(kind, 0), file.mtime_ns)
    left = {prefix for prefix in map(prefix_of, listing.files) if prefix is not None}
    named_here = {(file.directory, True) for file in listing.files.values() if file.is_state and not is_here(file)}
    for path, entry in sorted(known.items(), key=lambda each: not each[0].endswith(".index")):
        prefix = prefix_of(path)
        kind = path.rpartition("/")[0], prefix is not None
        if kind in named_here or path in listing.left:
            continue  # the file `checkpoint` here may still name it; or it is there, but cannot be read any more
        if path not in listing.files and prefix not in left and newest.get(kind, 0) > entry.mtime_ns:
            yield path
