"""Files between this machine and the hosts of a run: what the chief makes comes here, its newest checkpoint goes there.

`launcher.gathering` and `launcher.restoring` do it; here is when. A run of this machine alone needs neither.
"""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.caller.called_as import launch_command
from launcher.errors import EXIT_HOST
from launcher.hosts import events
from launcher.hosts.all_hosts import Hosts
from launcher.hosts.attending import StopRequestedError
from launcher.hosts.inbox import Inbox
from launcher.run.run import Run
from launcher.run_directory.chief_files import newest_step
from launcher.run_directory.state import RunHost, chief_host
from launcher.run_directory.whole_files import relative

if TYPE_CHECKING:
    from launcher.gathering.gathering import Gathering, Say  # needed only once workers run on other hosts

STEP_PATIENCE = 5.0
"""Seconds that a chief on another host gets to tell how far its checkpoints have come, before a restart is decided."""
GIVING_UP = 1.0
"""Seconds that gathering gets to break off."""


Attend = Callable[[float, Callable[[], bool]], Iterator[events.Event]]
"""Stays with the hosts for so many seconds, or until something is over; yields what happens meanwhile.

Raises `StopRequestedError` when the user would not wait.
"""


class HostFiles:
    """One run's. All methods are called by the thread that attends to the hosts."""

    def __init__(self, run: Run, hosts: Hosts, inbox: Inbox, say: Say, attend: Attend) -> None:
        """Nothing is asked yet."""
        self._directory = run.directory
        self._cluster = run.cluster
        self._hosts = hosts
        self._inbox = inbox
        self._say = say
        self._attend = attend
        self._gathering: Gathering | None = None
        self._intact = True
        """The chief's host was there all the time since workers last started from the same checkpoint."""

    def on_event(self, event: events.Event) -> None:
        """Handle an agent's answer about files, or its loss."""
        if self._gathering is not None and isinstance(event, events.Answer | events.HostLost):
            self._gathering.hear(event)

    def begin(self, run_hosts: Sequence[RunHost]) -> Gathering | None:
        """Bring here what is new from now on; None: this machine is all there is."""
        if all(host.is_local for host in self._cluster.hosts):
            return None
        if self._gathering is None:
            from launcher.gathering.gathering import Gathering

            self._gathering = Gathering(
                self._directory,
                self._cluster.collect,
                self._hosts.send,
                self._say,
                ended=lambda: self._inbox.put(events.GatheringEnded()),
                refuse=self._hosts.give_up,
                interval=self._cluster.collect_interval,
            )
        self._gathering.begin(run_hosts, self._hosts.is_lost)
        return self._gathering

    def bring_newest_checkpoint(self, run_hosts: Sequence[RunHost]) -> None:
        """Bring it to every host that lacks it, so that all workers start from the same one.

        Raises:
            HostError: a host does not take it.
            StopRequestedError: the user would not wait.
        """
        self._intact &= self._gathering is not None and not self._gathering.has_lost(chief_host(run_hosts).name)
        gathering = self.begin(run_hosts)
        if gathering is None:
            return
        from launcher.restoring.restoring import Restoring

        restoring = Restoring(self._directory, run_hosts, gathering, self._say, intact=self._intact)
        try:
            for errands in restoring.phases():
                self._await(lambda asked=errands: all(each.done() for each in asked))  # type: ignore[misc]
        except StopRequestedError:
            gathering.break_off_errands()
            raise
        self._intact = True

    def newest_step(self) -> int | None:
        """How far the checkpoints have come, whether they are here already or still on the chief's host.

        Raises:
            StopRequestedError: the user would not wait.
        """
        steps = [newest_step(self._directory.chief)]
        if self._gathering is not None:
            asked = self._gathering.ask_newest_step()
            for event in self._attend(STEP_PATIENCE, asked.done):
                if isinstance(event, events.HostLost):
                    self._say(f"{event.host} was lost: {event.reason}", error=True)
            steps.append(asked.result() if asked.done() and not asked.exception() else None)
        return max((step for step in steps if step is not None), default=None)

    def gather_the_rest(self) -> int:
        """The run has ended: bring what the hosts have. Return 0 if all is here, else the exit code that says why not.

        A Ctrl-C leaves it there.
        """
        gathering = self._gathering
        if gathering is None:
            return 0
        interrupted = 0
        gathering.finish()
        try:
            self._await(lambda: gathering.is_over)
        except StopRequestedError as stopped:
            gathering.give_up()
            interrupted = 128 + stopped.signal
            with contextlib.suppress(StopRequestedError):
                self._await(lambda: gathering.is_over, GIVING_UP)
        return interrupted or (0 if gathering.has_all else EXIT_HOST)

    def tell_what_is_not_here(self) -> None:
        """After `gather_the_rest`."""
        if self._gathering is not None:
            self._gathering.tell(f"{launch_command()} collect {shlex.quote(relative(self._directory.path))}")

    def _await(self, over: Callable[[], bool], seconds: float = math.inf) -> None:
        for _ in self._attend(seconds, over):
            pass
