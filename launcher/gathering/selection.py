"""What is gathered next, in which order, and which files here the chief has replaced. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from launcher.gathering.checkpoints import checkpoints_among, is_of_one_save, prefix_of
from launcher.gathering.file_kinds import grows, is_cache, is_temporary
from launcher.gathering.gathered import Batch, Gathered
from launcher.gathering.remote_files import Listing, RemoteFile, is_below
from launcher.on_host.agent.files import EVERYTHING

SETTLE = 2.0
"""Seconds without a write after which a file of a running program is taken for finished."""

LARGE = 64 << 20
"""Bytes of a file that is brought again only at the end of the run, unless it is a checkpoint or only grows."""


def select(
    listing: Listing,
    is_here: Callable[[RemoteFile], bool],
    known: Mapping[str, RemoteFile],
    names: Sequence[str] = (EVERYTHING,),
    *,
    final: bool,
) -> Gathered:
    """Choose what is not here yet: the newest checkpoint first, `checkpoint` after all it may name, then the rest.

    Args:
        listing: what the chief has.
        is_here: whether a file is in place here as it is there.
        known: what was gathered before.
        names: what is asked for.
        final: nothing runs there any more.
    """
    files = [file for file in listing.files.values() if _is_asked_for(file.path, names)]
    stays = [file for file in listing.files.values() if not _is_asked_for(file.path, names)]
    checkpoints = checkpoints_among(files)
    left = {
        path: why
        for path, why in listing.left.items()
        if is_below(path, names) or not is_below(path, (EVERYTHING,))  # a name that cannot be taken for what it says
    }
    wanted = []
    for each in sorted(checkpoints.values(), key=lambda each: (-each.mtime_ns, each.name)):
        if reason := _unfinished(each, listing, known, final):
            left[each.name] = reason
        elif not all(map(is_here, each.files)):
            wanted.append(each)
    rest = [file for file in files if prefix_of(file.path) not in checkpoints and not is_here(file)]
    rest.sort(key=lambda file: (not file.is_state, -file.mtime_ns, file.path))
    single = [Batch(file.path, (file,)) for file in rest if final or _is_finished(file, listing)]
    wanted += [batch for batch in single if final or not _waits_for_the_end(batch, known)]
    return Gathered(left=left, stays=stays, wanted=wanted)


def _is_asked_for(path: str, names: Sequence[str]) -> bool:
    return is_below(path, names) and not is_temporary(path) and not is_cache(path, names)


def _unfinished(checkpoint: Batch, listing: Listing, known: Mapping[str, RemoteFile], final: bool) -> str:
    if checkpoint.missing:
        return checkpoint.missing
    if not is_of_one_save(checkpoint) and (
        any(file.path in known for file in checkpoint.files) or not (final or _settled(checkpoint, listing))
    ):
        # copied files may be older than others: that is fine, unless there is a good one here to be lost
        return "its index is older than its data"
    return ""


def _is_finished(file: RemoteFile, listing: Listing) -> bool:
    """TensorFlow replaces `checkpoint` by rename, and what grows is good at any length."""
    return file.is_state or grows(file.path) or not 0 <= listing.age(file) < SETTLE


def _waits_for_the_end(batch: Batch, known: Mapping[str, RemoteFile]) -> bool:
    """Something large that is written again and again, and that is here in an earlier version, would fill the link."""
    return batch.size > LARGE and batch.name in known and not batch.is_noteworthy and not grows(batch.name)


def _settled(checkpoint: Batch, listing: Listing) -> bool:
    return not any(0 <= listing.age(file) < SETTLE for file in checkpoint.files)


def outdated(listing: Listing, is_here: Callable[[RemoteFile], bool], known: Mapping[str, RemoteFile]) -> Iterator[str]:
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
