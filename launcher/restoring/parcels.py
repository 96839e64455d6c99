"""Files of this machine as they are to be on another host, and which of them that host lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from launcher.gathering.gathered import Batch
from launcher.gathering.remote_files import RemoteFile
from launcher.gathering.state_file import STATE_FILE, naming, newest_named, portable
from launcher.restoring.needs import Needs, series
from launcher.run_directory.whole_files import shown
from launcher.wording import counted, exact_size


@dataclass(frozen=True, slots=True)
class Parcel:
    """A file as it is to be on the host."""

    file: RemoteFile
    content: Path | bytes
    """The file here that holds it, or what it is to hold."""
    batch: Batch
    """What it is a part of. A checkpoint has to be as the chief has it; of anything else the host's own wins."""


def parcels(directory: Path, needs: Needs, *, newest: bool) -> list[Parcel]:
    """What a restart needs, from the files of a directory here.

    Args:
        directory: what is here of the chief's output directory.
        needs: of its files.
        newest: have TensorFlow's `checkpoint` name the newest one that is here: what named it was lost with its host.
    """
    packed = [
        Parcel(file, directory / file.path, batch)
        for batch in (*needs.others, *needs.checkpoints)
        for file in batch.files
    ]
    places = {file.directory: file for file in needs.state_files}
    named = dict.fromkeys([*places, *(_directories(needs) if newest else ())])
    states = [_state_parcel(directory, place, places.get(place), needs if newest else None) for place in named]
    return [*packed, *states]


def _state_parcel(directory: Path, place: str, file: RemoteFile | None, needs: Needs | None) -> Parcel:
    """The file `checkpoint` of one directory; with `needs` it names the newest of them, whatever it named before."""
    path = f"{place}/{STATE_FILE}".lstrip("/")
    content = portable((directory / path).read_bytes(), str(directory / place)) if file else b""
    mtime_ns = file.mtime_ns if file else 0
    if needs is not None and (batch := newest_in(place, needs, newest_named(content, place, "/"))):
        content = naming(content, PurePosixPath(batch.name).name)
        mtime_ns = max(mtime_ns, batch.mtime_ns)
    state = RemoteFile(path, len(content), mtime_ns)
    return Parcel(state, content, Batch(path, (state,), is_checkpoint=True))


def newest_in(place: str, needs: Needs, named: str | None) -> Batch | None:
    """The newest of TensorFlow's checkpoints in a directory, of the series that is named there, if one is."""
    fitting = [
        batch
        for batch in needs.tensorflow
        if batch.files[0].directory == place and (not named or series(batch.name) == series(named))
    ]
    return max(fitting, key=lambda batch: batch.mtime_ns, default=None)


def _directories(needs: Needs) -> Iterator[str]:
    return (batch.files[0].directory for batch in needs.tensorflow)


def wanted_on(
    there: Mapping[str, RemoteFile], every: Sequence[Parcel], is_ours: Callable[[RemoteFile], bool]
) -> list[Parcel]:
    """What a host lacks: by path, size and time of modification.

    Args:
        there: what it has.
        every: what it needs.
        is_ours: whether a file that it has was brought there, and not made there.
    """
    return [each for each in every if _is_wanted(there.get(each.file.path), each, is_ours)]


def _is_wanted(found: RemoteFile | None, parcel: Parcel, is_ours: Callable[[RemoteFile], bool]) -> bool:
    if found is None:
        return True
    return found != parcel.file and (parcel.batch.is_checkpoint or is_ours(found))


def brought_line(host: str, parcels: Sequence[Parcel]) -> str:
    size = exact_size(sum(each.file.size for each in parcels))
    checkpoints = [each.batch.name for each in parcels if each.batch.is_checkpoint and isinstance(each.content, Path)]
    names = list(dict.fromkeys(checkpoints))
    if not names:
        return f"{host}: brought {counted(len(parcels), 'file')} of the chief's ({size})"
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{host}: brought {shown(Path(names[0]))}{more} ({size})"
