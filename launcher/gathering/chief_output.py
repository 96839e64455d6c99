"""What the chief makes, brought here: whole, verified, checkpoint by checkpoint, the newest first."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.gathering.arrival import Arrival
from launcher.gathering.checkpoints import INDEX_END, prefix_of
from launcher.gathering.chief_directory import ChiefDirectory, open_chief_directory
from launcher.gathering.conversation import Conversation
from launcher.gathering.file_kinds import grows
from launcher.gathering.gathered import Batch, Gathered
from launcher.gathering.remote_files import Listing, RemoteFile
from launcher.gathering.report import gathered_line, under_way_line
from launcher.gathering.selection import outdated, select
from launcher.gathering.state_file import newest_named
from launcher.on_host.agent.files import EVERYTHING
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.state import RunHost
from launcher.run_directory.whole_files import make_directory, shown
from launcher.transfer.under_way import UnderWay

LONG, VERY_LONG = 1 << 27, 1 << 30
"""Bytes from which on lines say how far they are: where somebody waits for them, and while the run goes on."""


class NotBroughtError(Exception):
    """A file that is needed here cannot be taken; the message tells which, and why."""


class ChiefOutput:
    """The chief's output directory on its host, and how it comes here."""

    def __init__(
        self, directory: RunDirectory, host: RunHost, names: Sequence[str], say: Callable[[str], None]
    ) -> None:
        """`host`: the chief's; `names`: what is gathered of its output directory; `say` shows the user a line."""
        self._directory = directory
        self._host = host
        self._names = names
        self._say = say

    def gather(self, conversation: Conversation, *, final: bool) -> Gathered:
        """Bring what is new, and remove what the chief has replaced. `final`: nothing runs on the host any more.

        Raises:
            HostAwayError, GivenUpError: nobody answers any more. What has come is kept, and gone on with next time.
            InUseError: another launcher gathers this run.
            NoRoomError, OSError: the disk here does not take a file.
        """
        with open_chief_directory(self._directory, self._host.output_dir) as here:
            listing = self._listing(conversation, here, [EVERYTHING] if final else self._names)
            gathered = select(listing, here.is_here, here.known, self._names, final=final)
            look = _Look(self._host.output_dir, conversation, listing, here, gathered)
            for batch in self._arriving(look, LONG if final else VERY_LONG):
                if not final and batch.is_noteworthy:
                    self._say(gathered_line(batch))
            for path in list(outdated(listing, here.is_here, here.known)):
                look.remove(path)
            here.sweep(keep=() if final else listing.files)
        return gathered

    def bring(self, conversation: Conversation, paths: Collection[str]) -> None:
        """Bring just these files, so that they can be given to other hosts. Nothing runs on the host any more.

        Raises:
            NotBroughtError: one of them cannot be taken.
            HostAwayError, GivenUpError, InUseError, NoRoomError, OSError: as `gather`.
        """
        with open_chief_directory(self._directory, self._host.output_dir) as here:
            listing = self._listing(conversation, here, [EVERYTHING])
            listing.left, listing.files = {}, {path: file for path, file in listing.files.items() if path in paths}
            gathered = select(listing, here.is_here, here.known, final=True)
            for _ in self._arriving(_Look(self._host.output_dir, conversation, listing, here, gathered), LONG):
                pass
        for name, why in gathered.left.items():
            raise NotBroughtError(f"{shown(Path(name))}: {why}")

    def _listing(self, conversation: Conversation, here: ChiefDirectory, names: Sequence[str]) -> Listing:
        listing = conversation.list(self._host.output_dir, names)
        make_directory(self._directory.chief)  # somebody may have removed it since the run began
        here.adopt(listing.files.values())
        return listing

    def _arriving(self, look: _Look, long: int) -> Iterator[Batch]:
        """Each batch that is in place. Where `long` bytes and more are to come, lines say how far they are."""
        batches = list(filter(look.is_possible, look.gathered.wanted))
        size = sum(batch.size for batch in batches)
        if size < long:
            yield from look.bring(batches)
            return
        self._say(under_way_line(self._host.name, size))
        yield from look.bring(batches, UnderWay(f"from {self._host.name}", size, self._say).moved)

    def adopt(self, files: Iterable[RemoteFile]) -> None:
        """Record files that the chief's host has received from here, so that its later versions may replace them.

        Raises:
            InUseError, OSError: as `gather`.
        """
        with open_chief_directory(self._directory, self._host.output_dir) as here:
            here.adopt(files)

    def read_small(self, conversation: Conversation, files: Iterable[RemoteFile]) -> dict[str, bytes]:
        """The contents of small files, by path. Nothing is put in place, and what cannot be read is left out.

        Raises:
            HostAwayError, GivenUpError, OSError: as `gather`.
        """
        contents = {}
        parts = (self._directory.parts / f"read-{number}" for number in itertools.count())
        arrivals = (Arrival(file, part, part) for file, part in zip(files, parts, strict=False))
        with contextlib.closing(conversation.fetch(self._host.output_dir, arrivals)) as arriving:
            for each in arriving:
                if each.failure is None:
                    contents[each.file.path] = each.content()
                each.discard()
        return contents


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the chief's output directory."""

    root: str
    conversation: Conversation
    listing: Listing
    here: ChiefDirectory
    gathered: Gathered

    def is_possible(self, batch: Batch) -> bool:
        """Whether a batch can be put in place here; if not, it is noted why."""
        for file in batch.files:
            if obstacle := self.here.obstacle(file):
                self.gathered.left[batch.name] = obstacle
                return False
            if refusal := self.here.refusal(file):
                self.gathered.left[batch.name] = f"here, nothing can be written beside it: {refusal.strerror}"
                self._note(refusal)
                return False
        return True

    def remove(self, path: str) -> None:
        """Remove a file here that the chief has no more."""
        try:
            self.here.remove(path)
        except OSError as error:
            self._note(error)

    def _note(self, trouble: OSError) -> None:
        self.gathered.trouble = self.gathered.trouble or trouble

    def bring(self, batches: Sequence[Batch], moved: Callable[[int], None] = lambda _: None) -> Iterator[Batch]:
        """Fetch batch after batch; yield each that is in place. `moved` is called with the bytes of each piece."""
        arrivals = (self.here.begin(file) for batch in batches for file in batch.files)
        with contextlib.closing(self.conversation.fetch(self.root, arrivals, moved)) as arriving:
            for batch in batches:
                self.here.check_room(batch)
                if self._is_put(batch, arriving):
                    self.gathered.batches.append(batch)
                    yield batch

    def _is_put(self, batch: Batch, arriving: Generator[Arrival]) -> bool:
        with contextlib.ExitStack() as stack:
            arrived = [stack.enter_context(contextlib.closing(next(arriving))) for _ in batch.files]
            self.gathered.received += sum(each.received for each in arrived)
            faults = [fault for each in arrived if (fault := self._fault(each, batch))]
            if faults:
                self.gathered.left[batch.name] = faults[0]
            else:
                self.here.put(arrived, durable=batch.is_checkpoint)
        return not faults

    def _fault(self, arrival: Arrival, batch: Batch) -> str | None:
        """Why a batch cannot be put in place with this file in it."""
        file = arrival.file
        if arrival.failure is not None:
            arrival.discard()
            return arrival.failure
        if not arrival.unchanged and not grows(file.path):
            return "it was written to while it was sent"
        if batch.is_checkpoint and arrival.arrived.stamp != file.stamp:
            return "it was replaced while it was sent"
        if batch.is_checkpoint and file.path.endswith(".index") and arrival.content(-len(INDEX_END)) != INDEX_END:
            return "its index is not whole"
        if file.is_state and not self._has_what_it_names(arrival):
            return "the newest checkpoint that it names is not here"
        return None

    def _has_what_it_names(self, state: Arrival) -> bool:
        """Whether the checkpoint that a file `checkpoint` names is here, for whoever restores from here."""
        newest = newest_named(state.content(), state.file.directory, self.root)
        files = [file for file in self.listing.files.values() if prefix_of(file.path) == newest]
        return newest is None or (bool(files) and all(map(self.here.is_here, files)))
