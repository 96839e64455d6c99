"""What happens to a run: hosts get ready, a gang is started and watched, and after a failure all of it once more."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from launcher.cluster.plan import AttemptPlan, plan_attempt, thread_warnings
from launcher.cluster.spec import ClusterSpec
from launcher.errors import EXIT_DONE, EXIT_WORKERS_FAILED, HostError
from launcher.hosts import events
from launcher.hosts.all_hosts import Hosts
from launcher.hosts.attending import attend_until
from launcher.hosts.inbox import Inbox
from launcher.run.attempt.actions import AttemptResult
from launcher.run.attempt.lone_workers import LoneWorkers
from launcher.run.attempt.supervisor import supervise
from launcher.run.failure.failure import Failure
from launcher.run.failure.restart_policy import FailedAttempt, GiveUp, decide, restarts_used
from launcher.run.host_contexts import host_contexts, run_hosts
from launcher.run.host_files import HostFiles
from launcher.run.observer import RunObserver
from launcher.run.result import RunResult
from launcher.run.run import Run
from launcher.run_directory.chief_files import newest_step
from launcher.run_directory.state import RunHost

if TYPE_CHECKING:
    from launcher.sync.sending import ProjectSync

AWAY_LOOK = 2.0
"""Seconds between two tries to connect to a host that was lost."""
MOST_LOSSES = 3
"""Of hosts that had all been ready for a restart. One that comes back each time, and goes again, is of no use."""


class Attempts:
    """All tries of a run, until one succeeds or there is no sense in another one."""

    def __init__(self, run: Run, hosts: Hosts, inbox: Inbox, observer: RunObserver) -> None:
        self._run = run
        self._cluster = run.cluster
        self._hosts = hosts
        self._inbox = inbox
        self._observer = observer
        self._first = run.directory.next_attempt()
        self._unannounced: AttemptPlan | None = None
        self._project = self._project_sync() if run.cluster.sync is not None else None
        self.files = HostFiles(run, hosts, inbox, observer.say, self._attended)
        self.hosts: tuple[RunHost, ...] = ()
        """Empty as long as nothing could be started."""
        self.result = RunResult(EXIT_WORKERS_FAILED, run.directory.path, 0)
        """How the run ended, as far as that is known."""

    def until_the_last(self) -> None:
        """Try until the training is done or the restart policy gives up; `result` says how it went.

        Raises:
            HostError: a host cannot be used.
            StopRequestedError: the user would not wait.
            UsageError: a part of the project cannot be sent.
        """
        if self._project is not None:
            self._project.read_project([self._run.request.runs_dir, self._run.directory.path])
        limits = self._cluster.restart
        failed: tuple[FailedAttempt, ...] = ()
        step = newest_step(self._run.directory.chief)
        for number in itertools.count(self._first):
            ended = self._attempt(number, restarts_used(failed))
            restarts = restarts_used(failed) + ended.lone_restarts
            result = RunResult(_exit_code(ended), self._run.directory.path, len(failed) + 1, ended.cause, restarts)
            self.result = result
            if ended.training_done or ended.interrupted is not None:
                return
            self.result = result._replace(failure=None)  # should no further attempt come about
            before, step = step, self.files.newest_step() if limits.max_restarts else None
            failed = (*failed, FailedAttempt(ended.cause, before, step, ended.lone_restarts))
            decision = decide(failed, limits)
            if isinstance(decision, GiveUp):
                self.result = result
                if limits.max_restarts:
                    further = "further " if len(failed) > 1 else ""
                    self._observer.complain(f"no {further}restart: {decision.reason}")
                return
            self._await_restart(restarts_used(failed), ended.cause, decision.delay)

    def close(self) -> None:
        """Nobody waits any more for the project to be anywhere."""
        if self._project is not None:
            self._project.close()

    def _project_sync(self) -> ProjectSync:
        from launcher.sync.sending import ProjectSync  # git, hashing, rsync: 8 ms, and most runs send no project

        return ProjectSync(self._cluster, self._hosts, self._inbox, self._observer.say)

    def _attempt(self, number: int, restarts_used: int) -> AttemptResult:
        plan = self._ready(number)
        self._observer.begin(plan)
        self._hosts.losses.clear()
        ended = supervise(
            plan,
            self._cluster.timeouts,
            self._hosts,
            self._inbox,
            self._observe,
            self._observer.say,
            LoneWorkers(plan.spec.tasks, self._cluster.restart, restarts_used),
        )
        if ended.interrupted is not None:
            self._observer.tell_last_places(ended.endings, plan)
        return ended

    # ---- the hosts get ready
    def _ready(self, number: int) -> AttemptPlan:
        """The hosts are ready for what is returned. A host that is lost before a restart is called again."""
        if number == self._first:
            return self._planned(number, self._hosts.prepare(self._cluster.timeouts.start, self._observe))
        for losses_left in reversed(range(MOST_LOSSES)):
            spec = self._prepared_again()
            try:
                return self._planned(number, spec)
            except HostError as error:
                if not self._lost_hosts() or not losses_left:
                    raise
                self._observer.complain(f"{error}\n  it is called again for the restart")
        raise AssertionError("unreachable")

    def _prepared_again(self) -> ClusterSpec:
        """The hosts are ready once more. One that was lost has `timeouts.start` to come back: it may be rebooting."""
        until = time.monotonic() + self._cluster.timeouts.start
        while True:
            self._hosts.reconnect_lost(self._observe_for_restart)
            try:
                spec = self._hosts.prepare(until - time.monotonic(), self._observe)
            except HostError as error:
                if not self._hosts.losses or time.monotonic() + AWAY_LOOK >= until:
                    raise
                limit = f"{self._cluster.timeouts.start:g} s (timeouts.start)"
                for line in (*error.complaints, f"this is tried again for {limit}"):
                    self._observer.say_once(line, error=True)
            else:
                self._observer.all_are_back()
                return spec
            for event in self._attended(AWAY_LOOK):
                self._tell_of_loss(event)

    def _planned(self, number: int, spec: ClusterSpec) -> AttemptPlan:
        """What the hosts, which are ready, are to start. They get what their workers need."""
        if self._project is not None:
            self._project.finish(self._observe)
        directory, request = self._run.directory, self._run.request
        contexts = host_contexts(
            self._cluster, directory, self._run.names, self._hosts.facts, fix_keras=not request.no_keras_fix
        )
        plan = plan_attempt(self._cluster, spec, contexts, self._run.names.run_id, number)
        if number == self._first:
            for line in thread_warnings(self._cluster, spec, contexts):
                self._observer.complain(line)
        self._unannounced = plan
        self.hosts = run_hosts(self._cluster, contexts)
        if number:
            self.files.bring_newest_checkpoint(self.hosts)
        if lost := self._lost_hosts():
            raise HostError(*lost)
        return plan

    def _lost_hosts(self) -> list[str]:
        return [why for host, why in self._hosts.losses.items() if self._hosts.is_lost(host)]

    # ---- between two attempts
    def _await_restart(self, restart: int, cause: Failure | None, delay: float) -> None:
        """Say what happened, and let the backoff pass. A host that is lost meanwhile ends it: it is called at once."""
        self._observer.tell_of(cause)
        types = {task.type for host in self._cluster.hosts for task in host.tasks}
        gang = "workers" if types == {"worker"} else "tasks"
        limit = self._cluster.restart.max_restarts
        self._observer.complain(f"restarting all {gang} in {delay:g} s (restart {restart} of {limit})")
        for event in self._attended(delay):
            self._tell_of_loss(event)
            if isinstance(event, events.HostLost):
                return

    def _observe_for_restart(self, event: events.Event) -> None:
        self._observe(event)
        self._tell_of_loss(event)

    def _tell_of_loss(self, event: events.Event) -> None:
        if isinstance(event, events.HostLost):
            reason = event.reason.removesuffix(".")
            line = f"{event.host} was lost: {reason}; it is called again for the restart"
            self._observer.say_once(line, error=True)

    # ---- every event
    def _attended(self, seconds: float, over: Callable[[], bool] = lambda: False) -> Iterator[events.Event]:
        """Stay with the hosts until something is over, or for a time; yield what happens meanwhile.

        Raises:
            StopRequestedError: the user would not wait.
        """
        until = time.monotonic() + seconds
        return attend_until(self._hosts, self._inbox, over, lambda: until, self._observe)

    def _observe(self, event: events.Event) -> None:
        self._hosts.on_event(event)
        if self._project is not None:
            self._project.on_event(event)
        self.files.on_event(event)
        if isinstance(event, events.TaskStarted) and self._unannounced is not None:
            plan, self._unannounced = self._unannounced, None
            is_first = plan.attempt == self._first
            self._observer.announce(plan, self.hosts, self._hosts.facts if is_first else None)
            self.files.begin(self.hosts)
        self._observer.on_event(event)


def _exit_code(ended: AttemptResult) -> int:
    if ended.interrupted is not None:
        return 128 + ended.interrupted
    return EXIT_DONE if ended.succeeded else EXIT_WORKERS_FAILED
