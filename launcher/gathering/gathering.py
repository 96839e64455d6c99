"""Files of other hosts, brought into the run directory: what the chief makes, and the logs of all workers.

Each host is asked over the connection of its agent, by a thread of its own here. What has come is verified by size and
SHA-256 before it is put in place by rename, and what is here already is not sent again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol, TypeVar

from launcher.cluster.defaults import LOCALHOST
from launcher.gathering.brought import Brought
from launcher.gathering.checkpoints import newest_step_among
from launcher.gathering.chief_directory import is_copy
from launcher.gathering.chief_output import ChiefOutput
from launcher.gathering.conversation import BrokenOffError, Conversation, Errand, GivenUpError, HostAwayError
from launcher.gathering.file_kinds import lasting
from launcher.gathering.gathered import Gathered
from launcher.gathering.host_gatherer import HostGatherer
from launcher.gathering.remote_files import RemoteFile, plain_names
from launcher.gathering.report import left_line, retry_line, stays_line, trouble_lines
from launcher.gathering.worker_logs import WorkerLogs
from launcher.hosts.events import Answer, HostLost
from launcher.on_host.agent.files import EVERYTHING
from launcher.on_host.agent.messages import Command
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.state import RunHost, chief_host

Result = TypeVar("Result")


class Say(Protocol):
    """Show the user a line."""

    def __call__(self, text: str, *, error: bool = False) -> None:
        """From any thread; never waits."""


class Gathering:
    """All hosts of a run but this machine. No method waits; all are called by one thread."""

    def __init__(
        self,
        directory: RunDirectory,
        names: Iterable[str],
        ask: Callable[[str, Command], None],
        say: Say,
        ended: Callable[[], None],
        *,
        refuse: Callable[[str, str], None],
        interval: float = 0.0,
        still_running: bool = False,
    ) -> None:
        """Nothing is asked yet.

        Args:
            directory: of the run.
            names: what is gathered of the chief's output directory.
            ask: sends a command to the agent of a host; one that is away takes nothing.
            say: shows the user a line.
            ended: called from any thread when all is over after `finish`, and after each errand.
            refuse: called from any thread with the name of a host whose agent has broken the protocol, and with how.
            interval: seconds between two looks for new files while the run goes on; 0: there are none.
            still_running: whether, after `finish`, the programs go on nevertheless: another launcher has them.
        """
        self._directory = directory
        self._names = plain_names(names)
        self._ask = ask
        self._say = say
        self._ended = ended
        self._refuse = refuse
        self._interval = interval
        self._still_running = still_running
        self._hosts: dict[str, RunHost] = {}
        self._chief = ""
        self._gatherers: dict[str, HostGatherer] = {}
        self._every: list[HostGatherer] = []
        """These, and those of agents that were lost."""
        self._lost: set[str] = set()
        self.losses: dict[str, str] = {}
        """Why the agent of each host that was lost has gone."""
        self._finishing = False
        self._numbers = itertools.count()

    def begin(self, hosts: Sequence[RunHost], is_lost: Callable[[str], bool]) -> None:
        """Gather from these hosts. Called again for a restart, when lost hosts have a new agent, or are lost again."""
        self._chief = chief_host(hosts).name if hosts else ""
        self._hosts = {host.name: host for host in hosts if host.name != LOCALHOST}
        for host in self._hosts.values():
            if host.name not in self._gatherers or host.name in self._lost:
                gatherer = self._gatherers[host.name] = self._gatherer(host)
                self._every.append(gatherer)
                gatherer.start()
        self._lost = {name for name in self._hosts if is_lost(name)}
        for name in self._lost:
            self._gatherers[name].conversation.hear(HostAwayError(""))

    def hear(self, event: Answer | HostLost) -> None:
        """Pass on what an agent tells."""
        gatherer = self._gatherers.get(event.host)
        if isinstance(event, HostLost):
            self._lost.add(event.host)
            self.losses[event.host] = event.reason
            if gatherer is not None:
                # A run tells itself why it lost a host; once it has ended, nobody else does.
                gatherer.conversation.hear(HostAwayError(event.reason if self._finishing else ""))
        elif gatherer is not None and hasattr(event.message, "number"):
            gatherer.conversation.hear(event.message)

    def ask_newest_step(self) -> Future[int | None]:
        """How far the checkpoints of a chief on another host have come, before they are here; None: no such ones."""
        if self._chief in self._hosts:
            return self.errand(self._chief, partial(_newest_step, self._hosts[self._chief].output_dir))
        nothing: Future[int | None] = Future()
        nothing.set_result(None)
        return nothing

    def has_lost(self, host: str) -> bool:
        """Its agent has gone since `begin`: it may come back with another disk."""
        return host in self._lost

    def errand(self, host: str, do: Callable[[Conversation], Result]) -> Errand[Result]:
        """Have something done by the thread that talks to a host, before anything else. It has `begin`-ed."""
        errand = Errand(do)
        errand.add_done_callback(lambda _: self._ended())
        if host in self._lost:
            errand.set_exception(HostAwayError(""))
        else:
            self._gatherers[host].do_first(errand)
        return errand

    def break_off_errands(self) -> None:
        """End the errands that are under way: nobody waits for them any more."""
        for gatherer in self._gatherers.values():
            gatherer.conversation.hear(BrokenOffError())

    def finish(self) -> None:
        """The run has ended: bring all that is left. `ended` is called once that is over."""
        self._finishing = True
        for gatherer in self._gatherers.values():
            gatherer.finish()
        self._tell_end()

    def give_up(self) -> None:
        """The user does not want to wait."""
        for gatherer in self._gatherers.values():
            gatherer.conversation.hear(GivenUpError())

    @property
    def is_over(self) -> bool:
        """Nothing more will come."""
        return all(each.is_over for each in self._every)

    @property
    def outcomes(self) -> list[HostGatherer]:
        return list(self._gatherers.values())

    def tell(self, again: str) -> bool:
        """Say what is not here and why; return `has_all`. `again`: the command that tries it once more."""
        for each in self.outcomes:
            if each.gathered.left:
                self._say(left_line(each.host, each.gathered.left))
            if stays := self._staying(each):
                self._say(stays_line(each.host, stays))
            if each.trouble is not None:
                names = self._names if each.host.name == self._chief else ()
                self._say(trouble_lines(each.host, names, each.trouble, again), error=True)
        return self.has_all

    @property
    def has_all(self) -> bool:
        """Everything has come that was to come."""
        return all(each.trouble is None for each in self.outcomes)

    def _staying(self, outcome: HostGatherer) -> list[RemoteFile]:
        """What only its host has: neither the chief's files, which are here, nor what was brought there of them."""
        if outcome.host.name == self._chief:
            return list(outcome.gathered.stays)
        brought = Brought(self._directory.brought_file)
        return [
            file
            for file in outcome.gathered.stays
            if not is_copy(self._directory.chief, file) and not brought.is_ours(outcome.host.name, file)
        ]

    def _gatherer(self, host: RunHost) -> HostGatherer:
        is_chief = host.name == self._chief and bool(self._names)
        output = ChiefOutput(self._directory, host, self._names, self._say)
        look = partial(output.gather, final=False) if is_chief else _nothing
        last_look = partial(output.gather, final=True) if is_chief else partial(_what_stays, host.output_dir)
        logs = WorkerLogs(self._directory, host.run_dir, host.tasks)
        return HostGatherer(
            host,
            Conversation(partial(self._ask, host.name), self._numbers),
            look,
            self._interval if is_chief else 0.0,
            # The logs first: they are small, and tell what happened.
            [look] if self._still_running else [logs.gather, last_look],
            complain=lambda trouble: self._say(retry_line(host.name, trouble, self._interval), error=True),
            refuse=partial(self._refuse, host.name),
            ended=self._tell_end,
        )

    def _tell_end(self) -> None:
        """Called after `finish`, and once each thread has ended; the last of these calls finds that all is over."""
        if self._finishing and self.is_over:
            self._ended()


def _nothing(_: Conversation) -> Gathered:
    return Gathered()


def _what_stays(output_dir: str, conversation: Conversation) -> Gathered:
    """What a host other than the chief's has in its output directory; nothing of it is brought."""
    return Gathered(stays=lasting(conversation.list(output_dir, [EVERYTHING]).files.values()))


def _newest_step(output_dir: str, conversation: Conversation) -> int | None:
    return newest_step_among(conversation.list(output_dir, [EVERYTHING]).files.values())
