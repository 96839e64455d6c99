"""What is said of gathering: what has come, what has not and why, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from launcher.gathering.chief_directory import is_of_full_disk
from launcher.gathering.conversation import GivenUpError, HostAwayError
from launcher.gathering.gathered import Batch, Gathered
from launcher.gathering.record import InUseError
from launcher.gathering.remote_files import RemoteFile, readable
from launcher.on_host.agent.files import EVERYTHING
from launcher.run_directory.chief_files import summary
from launcher.run_directory.state import RunHost
from launcher.run_directory.whole_files import relative, shown
from launcher.wording import counted, exact_size

MOST_NAMES = 5
"""So many names stand in a line; the others are counted."""


def gathered_line(batch: Batch) -> str:
    return f"gathered {shown(Path(batch.name))} ({counted(len(batch.files), 'file')}, {exact_size(batch.size)})"


def under_way_line(host: str, size: int) -> str:
    return f"bringing {exact_size(size)} from {host}"


def brought_line(host: str, gathered: Gathered) -> str:
    files = sum(len(batch.files) for batch in gathered.batches)
    if not files:
        return f"nothing new on {host}"
    return f"brought from {host}: {counted(files, 'file')} ({exact_size(gathered.received)} had to be sent)"


def left_line(host: RunHost, left: Mapping[str, str]) -> str:
    """What should have come from a host and could not be taken: a few names of each reason."""
    names: dict[str, list[str]] = {}
    for name, reason in left.items():
        names.setdefault(reason, []).append(readable(name))
    told = _listed((f"{_listed(each)} ({reason})" for reason, each in names.items()), "; ")
    return f"not brought from {host.name}, where it stays in {shown(Path(host.run_dir))}: {told}"


def stays_line(host: RunHost, files: Iterable[RemoteFile]) -> str:
    """What nobody wants here of a host's output directory, or what is not the chief's."""
    named = summary({file.path: file.size for file in files})
    return f"stays on {host.name}, in {shown(Path(host.output_dir))}: {named}"


def retry_line(host: str, trouble: Exception, interval: float) -> str:
    """Why nothing comes from a host while the run goes on."""
    return f"files of {host} cannot be brought here: {_reason(trouble)}; this is tried again every {interval:g} s"


def trouble_lines(host: RunHost, names: Sequence[str], trouble: Exception, again: str) -> str:
    """Why not all has come from a host, where it is, and the command that tries it again."""
    logs = f"the logs of {_listed(host.tasks)}"
    chief = "the chief's files" if EVERYTHING in names else ", ".join(names)
    what = f"{chief} and {logs}" if names else logs
    stays = f"What is missing stays there, in {shown(Path(host.run_dir))}."
    match trouble:
        case HostAwayError():
            why = f" ({trouble})" if str(trouble) else ""
            return f"{host.name} is away{why}: {what} are not all here. {stays}\n  when it is back: {again}"
        case GivenUpError():
            return f"{what} were not all brought from {host.name}. {stays}\n  to bring the rest: {again}"
        case InUseError():
            return f"{host.name}: another launcher is bringing the files of this run.\n  if it fails: {again}"
    remedy = "make room" if is_of_full_disk(trouble) else "put that right"
    return f"{what} could not all be brought from {host.name}: {_reason(trouble)}. {stays}\n  {remedy}, then: {again}"


def _reason(trouble: Exception) -> str:
    if isinstance(trouble, OSError):
        return f"{relative(trouble.filename)}: {trouble.strerror}" if trouble.filename else str(trouble.strerror)
    if isinstance(trouble, InUseError):
        return "another launcher is bringing them"
    return str(trouble)


def _listed(names: Iterable[str], between: str = ", ") -> str:
    every = list(names)
    more = f" and {len(every) - MOST_NAMES} more" if len(every) > MOST_NAMES else ""
    return between.join(islice(every, MOST_NAMES)) + more
