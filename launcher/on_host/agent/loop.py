"""The agent itself: one event loop over descriptors, signals and timers, which gives each job its turn."""

from __future__ import annotations

import os
import select
import signal
import time

from launcher.on_host.agent.all_workers import Workers
from launcher.on_host.agent.dialler import Dialler
from launcher.on_host.agent.held_ports import HeldPorts
from launcher.on_host.agent.late_jobs import delivery_job, gathering_job, project_job
from launcher.on_host.agent.link import Link
from launcher.on_host.agent.messages import COMMANDS, Stop, StopAsked
from launcher.on_host.agent.processes import reap
from launcher.on_host.agent.programs import Programs
from launcher.on_host.agent.stopping import Stopping

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable, Iterable, Mapping

    from launcher.on_host.agent.jobs import Handlers, Job
    from launcher.on_host.agent.messages import Command

    More = Callable[["Agent"], Iterable[Job]]

STOP_REQUEST = signal.SIGUSR1
"""Asks for an orderly stop of the run on all hosts; `launch leftovers --stop` sends it."""
ORPHAN_GRACE = 0.3
"""Seconds between SIGTERM and SIGKILL when the launcher is gone. Nobody would collect what a worker saved then."""


class Agent:
    """It runs as long as the launcher does, and then until nothing is left of what it has started."""

    def __init__(
        self,
        guard_gone: int,
        known: Mapping[str, type[Command]] = COMMANDS,
        more: More = lambda _: (),
    ) -> None:
        """Begin.

        Args:
            guard_gone: a descriptor that is readable once the guard is gone.
            known: all commands that the launcher may send.
            more: makes the additional jobs of an agent that does more than run workers.
        """
        self._guard_gone: int | None = guard_gone
        self._is_over = False
        self._got_end_signal = False
        self._got_stop_request = False
        self._wakeup = self._catch_signals()
        self.link = Link(known, self._dispatch, self._shut_down)
        self._ports = HeldPorts(self.link)
        self._stopping = Stopping(self.link.tell, self._nothing_left)
        self._workers = Workers(self.link, self._ports, lambda: self._stopping.is_under_way)
        # In the order of their turns. Commands and the end of the run come early. Gathered files come last, so that
        # they fill the connection only after logs and events.
        self._jobs: list[Job] = [
            project_job(self.link),
            self.link,
            self._stopping,
            Dialler(self.link.tell),
            self._ports,
            self._workers,
            Programs(self.link.tell),
            *more(self),
            delivery_job(self.link),
            gathering_job(self.link),
        ]
        self._handlers: Handlers = {Stop: self._stop}
        for job in self._jobs:
            self._handlers.update(job.handlers())

    # ---- signals
    def _catch_signals(self) -> int:
        """Handle signals; return a descriptor that becomes readable with each (`signal.set_wakeup_fd`)."""
        wakeup, wakeup_write = os.pipe()
        for fd in (wakeup, wakeup_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wakeup_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(STOP_REQUEST, self._on_stop_request)
        return wakeup

    def _on_signal(self, *_: object) -> None:
        self._got_end_signal = True

    def _on_stop_request(self, *_: object) -> None:
        self._got_stop_request = True

    def _after_signals(self) -> None:
        if self._got_end_signal:
            self._shut_down("the agent was told to end by a signal")
        if self._got_stop_request:
            self._got_stop_request = False
            self.link.tell(StopAsked())

    def _reap(self) -> None:
        """Pass on which children have ended; notice when a stop has left none."""
        try:
            for pid, status in reap():
                for job in self._jobs:
                    job.child_ended(pid, status)
        except ChildProcessError:
            if self._stopping.is_under_way:
                self._stopping.finish()

    # ---- the end
    def _stop(self, asked: Stop) -> None:
        self._workers.begin_stop(signalled=bool(asked.number))
        self._stopping.begin(asked.number, asked.grace)
        self._reap()

    def _shut_down(self, reason: str) -> None:
        """Without a launcher, stop everything and exit. The reason goes to stderr."""
        if self.link.is_open:
            os.write(2, f"{reason}; all workers were stopped\n".encode())
            for job in self._jobs:
                job.close()
            self._stop(Stop(signal.SIGTERM, ORPHAN_GRACE))

    def _nothing_left(self) -> None:
        self._workers.look_soon()
        self._is_over = self._is_over or not self.link.is_open

    # ---- the loop
    def run(self) -> None:
        """Serve until the launcher is gone and nothing is left of the run."""
        while not self._is_over:
            owners = {fd: job for job in self._jobs for fd in job.polled}
            for fd, _ in self._poller().poll(self._timeout() * 1000 + 0.5):
                self._serve(fd, owners.get(fd))
            self._after_signals()
            for job in self._jobs:
                job.step(time.monotonic())
            self.link.flush()

    def _poller(self) -> select.poll:
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        if self._guard_gone is not None:
            poller.register(self._guard_gone, select.POLLIN)
        for job in self._jobs:
            for fd, wanted in job.polled.items():
                poller.register(fd, wanted)
        return poller

    def _timeout(self) -> float:
        return max(0.0, min(job.due for job in self._jobs) - time.monotonic())

    def _serve(self, fd: int, owner: Job | None) -> None:
        if fd == self._wakeup:
            os.read(self._wakeup, 4096)
            self._reap()
        elif fd == self._guard_gone:
            self._guard_gone = None
            self._shut_down("the guard process beside the agent was killed")
        elif owner is not None and fd in owner.polled:  # an earlier one in this turn may have closed it
            owner.on_ready(fd)

    def _dispatch(self, command: Command) -> None:
        self._handlers[type(command)](command)
