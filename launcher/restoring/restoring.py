"""Before workers start again, the newest checkpoint of the chief is brought to every host that lacks it.

Hosts need no shared disk for that. Where they have one, each has the files already, and nothing is sent. The threads
that gather from the hosts (`launcher.gathering`) do it, errand by errand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from launcher.cluster.defaults import LOCALHOST
from launcher.errors import HostError
from launcher.gathering.brought import Brought
from launcher.gathering.chief_directory import NoRoomError
from launcher.gathering.chief_output import LONG, ChiefOutput, NotBroughtError
from launcher.gathering.conversation import Conversation, Errand, HostAwayError
from launcher.gathering.gathering import Gathering, Say
from launcher.gathering.record import InUseError, in_turn
from launcher.gathering.remote_files import RefusedError, RemoteFile
from launcher.gathering.state_file import newest_named
from launcher.on_host.agent.files import EVERYTHING
from launcher.restoring.delivery import Delivery
from launcher.restoring.needs import Needs, is_newer_here, lacking, needs_of
from launcher.restoring.parcels import Parcel, brought_line, parcels, wanted_on
from launcher.run_directory.chief_files import files_below, unread
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.state import RunHost, chief_host
from launcher.run_directory.whole_files import relative
from launcher.transfer.under_way import UnderWay
from launcher.wording import exact_size

Result = TypeVar("Result")
Phases = Generator[Sequence[Errand[Any]], None, Result]
FilesByPath = Mapping[str, RemoteFile]
"""What a host has in its output directory, by path."""


class Restoring:
    """Brings the checkpoint before one attempt. The caller waits for the errands of each of its `phases`."""

    def __init__(
        self, directory: RunDirectory, hosts: Sequence[RunHost], gathering: Gathering, say: Say, *, intact: bool
    ) -> None:
        """Nothing is asked yet. `intact`: the chief's host was there all the time since the last attempt."""
        self._directory = directory
        self._intact = intact
        self._chief = chief_host(hosts)
        self._remote = [host for host in hosts if host.name != LOCALHOST]
        self._has_local = len(self._remote) < len(hosts)
        self._gathering = gathering
        self._say = say

    def phases(self) -> Phases[None]:
        """Yield the errands of each phase; all of them must be over before the next is asked for.

        Raises:
            HostError: a host cannot give, or take, what is needed.
        """
        there = yield from self._together(self._remote, _files_of)
        here = self._needs_here()
        if self._chief.name == LOCALHOST:
            yield from self._bring(here, there)
        elif is_newer_here(needs_of(there[self._chief.name].values()), here, intact=self._intact):
            yield from self._bring(here, there, newest=True)
        else:
            yield from self._bring_from_chief(there)

    def _bring_from_chief(self, there: Mapping[str, FilesByPath]) -> Phases[None]:
        others = dict(there)
        files = others.pop(self._chief.name).values()
        needs = needs_of(files)
        if self._has_local or any(lacking(needs.files, each) for each in others.values()):
            fetched = yield from self._together([self._chief], partial(self._fetch, files))
            yield from self._bring(fetched[self._chief.name], others)

    def _bring(self, needs: Needs, there: Mapping[str, FilesByPath], *, newest: bool = False) -> Phases[None]:
        """Bring what is needed from this machine to the hosts that have these files."""
        every = parcels(self._directory.chief, needs, newest=newest)
        brought = Brought(self._directory.brought_file)
        lacked = {name: wanted_on(files, every, partial(brought.is_ours, name)) for name, files in there.items()}
        takers = [host for host in self._remote if lacked.get(host.name)]
        for host in takers:
            brought.add(host.name, (each.file for each in lacked[host.name]))
        yield from self._together(takers, partial(self._deliver, lacked))

    # ---- errands, done by the thread that talks to the host
    def _fetch(self, files: Collection[RemoteFile], host: RunHost, conversation: Conversation) -> Needs:
        """Bring here what is needed of the chief's files; the files `checkpoint` tell which checkpoints they name."""
        output = self._output(host)
        contents = output.read_small(conversation, needs_of(files).state_files)
        needs = needs_of(files, names_in(contents, host.output_dir))
        in_turn(partial(output.bring, conversation, {file.path for file in needs.files}), conversation.pause)
        return needs

    def _output(self, host: RunHost) -> ChiefOutput:
        return ChiefOutput(self._directory, host, (EVERYTHING,), self._say)

    def _deliver(self, lacked: Mapping[str, Sequence[Parcel]], host: RunHost, conversation: Conversation) -> None:
        wanted = lacked[host.name]
        size = sum(each.file.size for each in wanted)
        if size >= LONG:
            self._say(f"{host.name}: bringing the newest checkpoint ({exact_size(size)})")
        under_way = UnderWay(f"{host.name}: bringing the newest checkpoint", size, self._say)
        Delivery(host, conversation).bring(wanted, under_way.moved)
        if host is self._chief:
            in_turn(lambda: self._output(host).adopt(each.file for each in wanted), conversation.pause)
        self._say(brought_line(host.name, wanted))

    def _together(
        self, hosts: Sequence[RunHost], do: Callable[[RunHost, Conversation], Result]
    ) -> Phases[dict[str, Result]]:
        """One errand a host; what came of each, by its name.

        Raises:
            HostError: one of them could not be done.
        """
        errands = {host.name: self._gathering.errand(host.name, partial(do, host)) for host in hosts}
        yield list(errands.values())
        lost = self._gathering.losses
        troubles = [
            trouble(host, error, lost.get(host.name, "its agent has gone"))
            for host in hosts
            if (error := errands[host.name].exception())
        ]
        if troubles:
            raise HostError(*troubles)
        return {name: errand.result() for name, errand in errands.items()}

    # ---- what is where
    def _needs_here(self) -> Needs:
        root = self._directory.chief
        found, unreadable = files_below(root)
        files = [RemoteFile(*each) for each in found]
        if unreadable:
            self._say(f"{relative(root)}: {unread(unreadable)}; other hosts get nothing of that")
        contents = {file.path: (root / file.path).read_bytes() for file in needs_of(files).state_files}
        return needs_of(files, names_in(contents, str(root)))


def _files_of(host: RunHost, conversation: Conversation) -> FilesByPath:
    return conversation.list(host.output_dir, [EVERYTHING]).files


def names_in(contents: Mapping[str, bytes], root: str) -> set[str]:
    """The prefixes that files called `checkpoint` name. `contents`: by path below `root`."""
    named = (newest_named(content, path.rpartition("/")[0], root) for path, content in contents.items())
    return {prefix for prefix in named if prefix is not None}


def trouble(host: RunHost, error: BaseException, loss: str) -> str:
    """Why what a restart needs cannot be brought, for the user. `loss`: why the host is away, if it is."""
    match error:
        case HostError():
            return str(error)
        case HostAwayError():
            return f"{host.name} was lost while the newest checkpoint was brought: {loss}"
        case RefusedError():
            return f"{host.name} was lost while the newest checkpoint was brought: {error}"
        case NotBroughtError() | NoRoomError():
            return f"{host.name}: the newest checkpoint cannot be brought for the restart: {error}"
        case InUseError():
            return f"{host.name}: another launcher is bringing the files of this run; wait until it has ended"
        case OSError(filename=name, strerror=reason):
            return f"the newest checkpoint cannot be brought to the other hosts: {name}: {reason}"
    raise error
