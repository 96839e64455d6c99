"""A run under way, attempt after attempt: everything is wired together here, and only here."""

from __future__ import annotations

import functools
import itertools
import json
import shlex
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.caller.called_as import launch_command
from launcher.caller.standard_output import write_out
from launcher.cluster.cluster import Cluster
from launcher.cluster.defaults import LOCALHOST
from launcher.cluster.plan import AttemptPlan, brings_training, plan_attempt, thread_warnings
from launcher.cluster.spec import ClusterSpec, Task
from launcher.cluster.task_names import counted
from launcher.console.console import STDERR, STDOUT, Console
from launcher.errors import EXIT_DONE, EXIT_HOST, EXIT_WORKERS_FAILED, HostError, LaunchError
from launcher.hosts import events
from launcher.hosts.all_hosts import Hosts, StopRequestedError
from launcher.hosts.facts import start_warnings
from launcher.hosts.one_host import BEATS_PER_LEASE, Inbox, receive
from launcher.run.attempt.gang import AttemptResult
from launcher.run.attempt.lone_workers import LoneWorkers
from launcher.run.attempt.supervisor import supervise
from launcher.run.event_log import EventLog
from launcher.run.failure.failure import Failure
from launcher.run.failure.interrupted import last_places
from launcher.run.failure.report import report
from launcher.run.failure.restart_policy import Attempt, GiveUp, RestartPolicy, restarts_used
from launcher.run.host_contexts import Names, host_contexts, remote_run_dir, run_hosts, support_files
from launcher.run.host_files import HostFiles
from launcher.run.last_steps import Result, whatever_comes
from launcher.run.python_choice import python_note
from launcher.run.record import RunRecord
from launcher.run.request import Request
from launcher.run.result import RunResult
from launcher.run_directory.chief_files import kept_line, newest_step
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.hold import LAUNCH, Hold
from launcher.run_directory.remote_logs import RemoteLogs
from launcher.run_directory.state import RunHost
from launcher.run_directory.whole_files import holds_something, relative
from launcher.sync.sending import ProjectSync

if TYPE_CHECKING:
    from launcher.run.resuming.resumption import Resumption  # needed only by a run that goes on

LAST_WORDS = 1.0
"""Seconds that a console which is stuck at the end gets for the launcher's last lines."""
DRAIN_LOOK = 0.1
"""Seconds between two looks for a Ctrl-C while a slow console catches up."""
AWAY_LOOK = 2.0
"""Seconds between two tries to connect to a host that was lost."""
MOST_LOSSES = 3
"""Of hosts that had all been ready for a restart. One that comes back each time, and goes again, is of no use."""


class Session:
    """A run under way: its hosts, its directory, its console, attempt after attempt."""

    def __init__(
        self, cluster: Cluster, request: Request, hosts: Hosts, inbox: Inbox, earlier: Resumption | None = None
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._hosts = hosts
        self._inbox = inbox
        self._began = time.monotonic()
        self._started = datetime.now().astimezone()
        self._directory = (
            earlier.directory if earlier else RunDirectory.create(request.run_dir, cluster.name, self._started)
        )
        self._hold = None if earlier else Hold(self._directory.path, LAUNCH)
        self._names = Names.of(self._directory.name, earlier.run_id if earlier else "")
        self._first_attempt = self._directory.next_attempt()
        self._hosts_of = {task: host.name for host in cluster.hosts for task in host.tasks}
        self._console = Console(
            self._acknowledge,
            quiet=request.quiet,
            show_noise=request.verbose,
            no_color=request.no_color,
            stdout=STDERR if request.as_json else STDOUT,
        )
        for note in earlier.told(cluster) if earlier else ():
            self._console.say(note)
        self._event_log = EventLog(self._directory.events_file, self._complain)
        self._sync = ProjectSync(cluster, hosts, inbox, self._console.say)
        self._logs: dict[Task, Path] = {}
        self._unwritten: AttemptPlan | None = None
        self._said: set[str] = set()
        """Of hosts that are away, since all were ready."""
        self._remote_logs = RemoteLogs(self._complain)
        self._run_hosts: tuple[RunHost, ...] = ()
        self._files = HostFiles(self._directory, cluster, hosts, inbox, self._console.say, self._attended)
        self._result = RunResult(EXIT_WORKERS_FAILED, self._directory.path, 0)
        """How the run ended, as far as that is known."""

    def _complain(self, text: str) -> None:
        self._console.say(text, error=True)

    def _acknowledge(self, task: Task, count: int) -> None:
        self._hosts.acknowledge(self._hosts_of[task], task, count)

    def to_its_end(self) -> RunResult:
        """Attempts until one succeeds or the restart policy gives up; the last lines say how it went."""
        exit_code = EXIT_WORKERS_FAILED
        try:
            self._directory.make_chief()
            self._bring_support()
            self._sync.read_project([self._request.run_dir, self._directory.path])
            self._result = self._attempts()
            exit_code = self._result.exit_code
        except StopRequestedError as stopped:
            exit_code = 128 + stopped.signal
        except LaunchError as error:
            exit_code = error.exit_code
            raise
        finally:
            self._result = self._result._replace(exit_code=exit_code)
            self._finish()
            if self._hold is not None:
                self._hold.release()
        return self._result

    def _bring_support(self) -> None:
        """Hosts behind ssh get what their workers need of ours."""
        remote = [host for host in self._cluster.hosts if not host.is_local]
        if remote:
            files = support_files(
                self._names, fix_keras=not self._request.no_keras_fix, training=brings_training(*self._cluster.commands)
            )
            for host in remote:
                self._hosts.bring(host.name, remote_run_dir(host, self._names), files)

    def _attempts(self) -> RunResult:
        policy = RestartPolicy(self._cluster.restart.max_restarts, self._cluster.restart.backoff)
        tried: tuple[Attempt, ...] = ()
        step = newest_step(self._directory.chief)
        for attempt in itertools.count(self._first_attempt):
            ended = self._attempt(attempt, restarts_used(tried))
            cause = ended.cause
            restarts = restarts_used(tried) + ended.lone_restarts
            result = RunResult(self._exit_code(ended), self._directory.path, len(tried) + 1, cause, restarts)
            if ended.training_done or ended.interrupted is not None:
                return result
            self._result = result._replace(failure=None)  # should no further attempt come about
            before, step = step, self._files.newest_step() if self._cluster.restart.max_restarts else None
            tried = (*tried, Attempt(cause, before, step, ended.lone_restarts))
            decision = policy.decide(tried)
            if isinstance(decision, GiveUp):
                if self._cluster.restart.max_restarts:
                    self._complain(f"no {'further ' if len(tried) > 1 else ''}restart: {decision.reason}")
                return result
            self._await_restart(restarts_used(tried), cause, decision.delay)
        raise AssertionError("unreachable")

    def _attempt(self, attempt: int, restarts_used: int) -> AttemptResult:
        spec, plan = self._ready(attempt)
        self._directory.make_attempt(attempt)
        remote = [host for host in self._cluster.hosts if not host.is_local]
        self._remote_logs.begin({task: self._directory.log(attempt, task) for host in remote for task in host.tasks})
        self._console.begin({task: relative(log) for task, log in self._logs.items()})
        self._hosts.losses.clear()
        ended = supervise(
            plan,
            self._cluster.timeouts,
            self._hosts,
            self._inbox,
            self._observe,
            self._console.say,
            LoneWorkers(spec.tasks, self._cluster.restart, restarts_used),
        )
        if ended.interrupted is not None:
            self._tell_last_places(ended, plan)
        return ended

    def _planned(self, attempt: int, spec: ClusterSpec) -> AttemptPlan:
        """What the hosts, which are ready, are to start. They get what their workers need.

        Raises:
            HostError: a host does not take it, or was lost.
            StopRequestedError: the user would not wait.
        """
        self._sync.finish(self._observe)
        fix_keras = not self._request.no_keras_fix
        contexts = host_contexts(
            self._cluster, self._directory.path, self._names, self._hosts.facts, fix_keras=fix_keras
        )
        plan = plan_attempt(self._cluster, spec, contexts, self._names.run_id, attempt)
        self._logs = {each.task: self._directory.log(attempt, each.task) for each in plan.tasks}
        if attempt == self._first_attempt:
            for line in thread_warnings(self._cluster, spec, contexts):
                self._complain(line)
        self._unwritten = plan
        self._run_hosts = run_hosts(self._cluster, contexts)
        if attempt:
            self._files.bring_newest_checkpoint(self._run_hosts)
        if lost := self._lost_hosts():
            raise HostError("\n".join(lost))
        return plan

    def _lost_hosts(self) -> list[str]:
        return [why for host, why in self._hosts.losses.items() if self._hosts.is_lost(host)]

    def _ready(self, attempt: int) -> tuple[ClusterSpec, AttemptPlan]:
        """The hosts are ready, and this is what they start. A host that is lost before a restart is called again.

        Raises:
            HostError: a host cannot be used.
            StopRequestedError: the user would not wait.
        """
        if attempt == self._first_attempt:
            spec = self._hosts.prepare(self._cluster.timeouts.start, self._observe)
            return spec, self._planned(attempt, spec)
        for losses_left in reversed(range(MOST_LOSSES)):
            spec = self._prepared_again()
            try:
                return spec, self._planned(attempt, spec)
            except HostError as error:
                if not self._lost_hosts() or not losses_left:
                    raise
                self._complain(f"{error}\n  it is called again for the restart")
        raise AssertionError("unreachable")

    def _prepared_again(self) -> ClusterSpec:
        """The hosts are ready once more. One that was lost has `timeouts.start` to come back: it may be rebooting.

        Raises:
            HostError, StopRequestedError: as `_ready`.
        """
        until = time.monotonic() + self._cluster.timeouts.start
        while True:
            self._hosts.call_lost_again(self._observe_for_restart)
            try:
                spec = self._hosts.prepare(until - time.monotonic(), self._observe)
            except HostError as error:
                if not self._hosts.losses or time.monotonic() + AWAY_LOOK >= until:
                    raise
                limit = f"{self._cluster.timeouts.start:g} s (timeouts.start)"
                self._once(self._complain, f"{error}\nthis is tried again for {limit}")
            else:
                self._said.clear()
                return spec
            self._attend_for_restart(AWAY_LOOK)

    def _tell_last_places(self, ended: AttemptResult, plan: AttemptPlan) -> None:
        workdirs = {each.task: each.workdir for each in plan.tasks}
        for line in last_places(ended.endings, lambda task, place: place.removeprefix(f"{workdirs[task]}/")):
            self._console.say(line)

    def _await_restart(self, restart: int, cause: Failure | None, delay: float) -> None:
        """Say what happened, and let the backoff pass.

        Raises:
            StopRequestedError: the user would not wait.
        """
        self._tell_of(cause)
        limit = self._cluster.restart.max_restarts
        gang = "workers" if all(task.type == "worker" for task in self._logs) else "tasks"
        self._complain(f"restarting all {gang} in {delay:g} s (restart {restart} of {limit})")
        self._attend_for_restart(delay)

    def _attend_for_restart(self, seconds: float) -> None:
        for event in self._attended(seconds):
            self._tell_of_loss(event)

    def _observe_for_restart(self, event: events.Event) -> None:
        self._observe(event)
        self._tell_of_loss(event)

    def _tell_of_loss(self, event: events.Event) -> None:
        if isinstance(event, events.HostLost):
            reason = event.reason.removesuffix(".")
            self._once(self._complain, f"{event.host} was lost: {reason}; it is called again for the restart")

    def _tell_of_silence(self, event: events.HostAwaited | events.HostSilent | events.HostAnswersAgain) -> None:
        if isinstance(event, events.HostAwaited):
            self._once(self._console.say, event.line)
        else:
            self._console.say(event.line)

    def _once(self, say: Callable[[str], None], text: str) -> None:
        """However often a host that stays away is called, what is said of it is said once."""
        if text not in self._said:
            self._said.add(text)
            say(text)

    def _attended(self, seconds: float, over: Callable[[], bool] = lambda: False) -> Iterator[events.Event]:
        """Stay with the hosts until something is over, or for a time; yield what happens meanwhile.

        Raises:
            StopRequestedError: the user would not wait.
        """
        until = time.monotonic() + seconds
        while not over() and (left := until - time.monotonic()) > 0:
            self._hosts.beat()
            event = receive(self._inbox, min(left, self._cluster.timeouts.lease / BEATS_PER_LEASE))
            if event is None:
                continue
            self._observe(event)
            if isinstance(event, events.Interrupted):
                raise StopRequestedError(event.signal)
            yield event

    # ---- what is shown and written down
    def _observe(self, event: events.Event) -> None:
        self._hosts.see(event)
        self._sync.take(event)
        match event:
            case events.ProjectAnswer():
                return
            case events.LogChunk():
                self._remote_logs.write(event.task, event.offset, event.data)
                self._console.write(event.task, event.data)
                return
            case events.FileNews() | events.HostLost():
                self._files.take(event)
            case events.HostAwaited() | events.HostSilent() | events.HostAnswersAgain():
                self._tell_of_silence(event)
            case events.StrangerRefused() | events.GateFailed():
                self._complain(event.line)
            case events.LogEnded():
                self._console.end(event.task)
            case events.Interrupted() | events.StopRequested():
                self._console.interrupt()
            case events.TaskStarted() if self._unwritten is not None:
                plan, self._unwritten = self._unwritten, None
                self._write_down(plan)
                self._files.begin(self._run_hosts)
        if not isinstance(event, events.FileNews):
            self._event_log.append(event)

    def _write_down(self, plan: AttemptPlan) -> None:
        """Once the first worker runs."""
        is_first = plan.attempt == self._first_attempt
        if is_first:
            self._record.begin(plan, self._run_hosts)
        else:
            self._record.begin_again(plan)
        notes = {LOCALHOST: python_note(self._cluster)}
        hosts = ", ".join(name + notes.get(name, "") for name in dict.fromkeys(each.host for each in plan.tasks))
        tasks = counted(each.task for each in plan.tasks)
        self._console.say(f"{tasks} on {hosts}; run directory {relative(self._directory.path)}")
        if is_first and len(self._cluster.hosts) > 1:
            addresses = {each.host: each.address.rpartition(":")[0] for each in plan.tasks}
            open_hosts = addresses if plan.admitted == "all" else plan.unheld
            for line in start_warnings(self._hosts.facts, addresses, open_hosts):
                self._console.say(line)

    @functools.cached_property
    def _record(self) -> RunRecord:
        return RunRecord(
            self._directory, self._cluster, self._request, self._started, self._complain, self._names.run_id
        )

    def _finish(self) -> None:
        """Bring what is left, write down how the run ended, then tell it, after all that the workers wrote."""
        self._take_step(self._remote_logs.close)
        ended = self._result
        if any(host.name != LOCALHOST for host in self._run_hosts):
            self._take_step(lambda: self._record.bring(ended, self._run_hosts))
        not_here = self._take_step(self._files.gather_the_rest)
        if not self._result.exit_code:
            self._result = self._result._replace(exit_code=EXIT_HOST if not_here is None else not_here)
        result = self._result
        self._take_step(lambda: self._record.end(result, self._run_hosts))  # first: it is true whatever fails below
        self._take_step(self._sync.close)
        self._take_step(self._show_what_is_left)
        self._take_step(self._files.tell_what_is_not_here)
        self._take_step(lambda: self._tell_end(result))
        self._take_step(self._tell_of_files)
        self._take_step(lambda: self._tell_how_to_go_on(result))
        self._take_step(self._event_log.close)
        if self._request.as_json:
            self._take_step(lambda: write_out(json.dumps(result.as_record()) + "\n"))
        self._take_step(lambda: self._console.close(timeout=LAST_WORDS))

    def _take_step(self, step: Callable[[], Result]) -> Result | None:
        return whatever_comes(step, self._complain)

    def _tell_end(self, result: RunResult) -> None:
        last_line = result.last_line(time.monotonic() - self._began)
        if last_line is not None:
            self._console.say(last_line)
        else:
            self._tell_of(result.failure)

    def _show_what_is_left(self) -> None:
        """Let a slow console show every line that came; a further Ctrl-C gives it up (the files have them all)."""
        while not self._console.drain(timeout=DRAIN_LOOK):
            if isinstance(receive(self._inbox, 0), events.Interrupted):
                return

    def _tell_of(self, failure: Failure | None) -> None:
        if failure is None:
            return
        log = self._logs.get(failure.task) if failure.task is not None else None
        self._complain("\n".join(report(failure, relative(log) if log and holds_something(log) else None)))

    def _tell_of_files(self) -> None:
        line = kept_line(self._directory.chief)
        if line is not None:
            self._console.say(line)

    def _tell_how_to_go_on(self, result: RunResult) -> None:
        """After a stop; and after a failure, if there is a checkpoint to go on from."""
        if not self._run_hosts or result.state == "done":
            return
        if result.state == "stopped" or newest_step(self._directory.chief) is not None:
            self._console.say(f"go on with: {launch_command()} --resume {shlex.quote(self._directory.as_argument)}")

    @staticmethod
    def _exit_code(ended: AttemptResult) -> int:
        if ended.interrupted is not None:
            return 128 + ended.interrupted
        return EXIT_DONE if ended.succeeded else EXIT_WORKERS_FAILED
