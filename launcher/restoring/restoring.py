"""Before workers start again, the newest checkpoint of the chief is brought to every host that lacks it.

Hosts need no shared disk for that. Where they have one, each has the files already, and nothing is sent. The threads
that gather from the hosts (`launcher.gathering`) do it, errand by errand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from launcher.cluster.defaults import LOCALHOST
from launcher.errors import HostError
from launcher.gathering.chief_directory import NoRoomError
from launcher.gathering.chief_output import LONG, ChiefOutput, NotBroughtError
from launcher.gathering.conversation import Conversation, Errand, HostAwayError
from launcher.gathering.gathering import Gathering, Say
from launcher.gathering.record import InUseError, in_turn
from launcher.gathering.remote_files import RefusedError, RemoteFile
from launcher.gathering.state_file import newest_named
from launcher.on_host.agent.files import EVERYTHING, walk
from launcher.on_host.agent.messages import Command
from launcher.restoring.delivery import Delivery
from launcher.restoring.needs import Needs, Place, lacking, needs_of, newer
from launcher.restoring.parcels import Parcel, brought_line, parcels, wanted_on
from launcher.run_directory.brought import Brought
from launcher.run_directory.chief_files import unread
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.state import RunHost, chief_host
from launcher.run_directory.whole_files import relative
from launcher.transfer.under_way import UnderWay
from launcher.wording import exact_size

Deliver = Callable[[str, Command], None]
"""Tell the agent of a host what to do."""


class Restoring:
    """Before one attempt. Errands are under way between its phases, and whoever goes through them waits for these."""

    def __init__(
        self,
        directory: RunDirectory,
        hosts: Sequence[RunHost],
        gathering: Gathering,
        deliver: Deliver,
        say: Say,
        *,
        intact: bool,
    ) -> None:
        """Nothing is asked yet. `intact`: the chief's host was there all the time since the last attempt."""
        self._directory = directory
        self._intact = intact
        self._chief = chief_host(hosts)
        self._remote = [host for host in hosts if host.name != LOCALHOST]
        self._gathering = gathering
        self._deliver = deliver
        self._say = say
        self._has_local = len(self._remote) < len(hosts)
        self._there: dict[str, Mapping[str, RemoteFile]] = {}
        """What each host has, by path."""
        self._brought = Brought(directory.brought_file)

    def phases(self) -> Iterator[Sequence[Errand]]:
        """Yield errands that must all be over before the next ones are asked for.

        Raises:
            HostError: a host cannot give, or take, what is needed.
        """
        yield from self._together(self._remote, self._list)
        here = self._needs_here()
        if self._chief.name == LOCALHOST:
            yield from self._to(self._remote, here)
        elif newer(needs_of(self._there[self._chief.name].values()), here, intact=self._intact) is Place.HERE:
            yield from self._to(self._remote, here, newest=True)
        else:
            yield from self._from_the_chiefs_host()

    def _from_the_chiefs_host(self) -> Iterator[Sequence[Errand]]:
        others = [host for host in self._remote if host is not self._chief]
        files = self._there[self._chief.name].values()
        needs = needs_of(files)
        if not self._has_local and not any(lacking(needs.files, self._there[host.name]) for host in others):
            return
        named: set[str] = set()
        yield from self._together([self._chief], partial(self._read_names, needs.state_files, named))
        needs = needs_of(files, named)
        yield from self._together([self._chief], partial(self._fetch, {file.path for file in needs.files}))
        yield from self._to(others, needs)

    def _to(self, hosts: Sequence[RunHost], needs: Needs, *, newest: bool = False) -> Iterator[Sequence[Errand]]:
        every = parcels(self._directory.chief, needs, newest=newest)
        sent: dict[str, list[Parcel]] = {}
        for host in hosts:
            is_ours = partial(self._brought.is_ours, host.name)
            wanted = wanted_on(self._there[host.name], every, is_ours)
            if wanted:
                sent[host.name] = wanted
                self._brought.add(host.name, (each.file for each in wanted))
        yield from self._together(
            [host for host in hosts if host.name in sent],
            lambda host, conversation: self._bring(host, conversation, sent[host.name]),
        )

    # ---- errands, done by the thread that talks to the host
    def _list(self, host: RunHost, conversation: Conversation) -> None:
        self._there[host.name] = conversation.list(host.output_dir, [EVERYTHING]).files

    def _read_names(
        self, state_files: Sequence[RemoteFile], named: set[str], host: RunHost, conversation: Conversation
    ) -> None:
        contents: dict[str, bytes] = {}
        self._output(host).read_small(conversation, state_files, into=contents)
        named |= names_in(contents, host.output_dir)

    def _fetch(self, paths: Collection[str], host: RunHost, conversation: Conversation) -> None:
        in_turn(partial(self._output(host).bring, conversation, paths), conversation.pause)

    def _output(self, host: RunHost) -> ChiefOutput:
        return ChiefOutput(self._directory, host, (EVERYTHING,), self._say)

    def _bring(self, host: RunHost, conversation: Conversation, lacking: Sequence[Parcel]) -> None:
        size = sum(each.file.size for each in lacking)
        if size >= LONG:
            self._say(f"{host.name}: bringing the newest checkpoint ({exact_size(size)})")
        under_way = UnderWay(f"{host.name}: bringing the newest checkpoint", size, self._say)
        Delivery(host, conversation, partial(self._deliver, host.name)).bring(lacking, under_way.moved)
        if host is self._chief:
            in_turn(lambda: self._output(host).adopt(each.file for each in lacking), conversation.pause)
        self._say(brought_line(host.name, lacking))

    def _together(
        self, hosts: Sequence[RunHost], do: Callable[[RunHost, Conversation], None]
    ) -> Iterator[Sequence[Errand]]:
        """One errand a host.

        Raises:
            HostError: one of them could not be done.
        """
        errands = [self._gathering.errand(host.name, partial(do, host)) for host in hosts]
        yield errands
        lost = self._gathering.losses
        troubles = [
            trouble(host, each.trouble, lost.get(host.name, "its agent has gone"))
            for host, each in zip(hosts, errands, strict=True)
            if each.trouble
        ]
        if troubles:
            raise HostError("\n".join(troubles))

    # ---- what is where
    def _needs_here(self) -> Needs:
        root = self._directory.chief
        files: list[RemoteFile] = []
        unreadable: dict[str, str] = {}
        for kind, what in walk(str(root), [EVERYTHING]):
            if kind == "unreadable":
                unreadable[what[0]] = what[1]
            elif kind == "files":
                files.append(RemoteFile(*what))
        if unreadable:
            self._say(f"{relative(root)}: {unread(unreadable)}; other hosts get nothing of that")
        contents = {file.path: (root / file.path).read_bytes() for file in needs_of(files).state_files}
        return needs_of(files, names_in(contents, str(root)))


def names_in(contents: Mapping[str, bytes], root: str) -> set[str]:
    """The prefixes that files called `checkpoint` name. `contents`: by path below `root`."""
    named = (newest_named(content, path.rpartition("/")[0], root) for path, content in contents.items())
    return {prefix for prefix in named if prefix is not None}


def trouble(host: RunHost, error: Exception, loss: str) -> str:
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
