"""What is shown and written down of a run, whatever becomes of it: console, logs, `events.jsonl`, `run.json`."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launcher.caller.called_as import launch_command
from launcher.caller.standard_output import write_out
from launcher.cluster.defaults import LOCALHOST
from launcher.cluster.plan import AttemptPlan
from launcher.cluster.spec import Task
from launcher.cluster.task_names import counted
from launcher.console.console import STDERR, STDOUT, Console
from launcher.hosts import events
from launcher.hosts.facts import HostFacts, start_warnings
from launcher.hosts.inbox import Inbox, receive
from launcher.run.event_log import EventLog
from launcher.run.failure.ending import Ending
from launcher.run.failure.failure import Failure
from launcher.run.failure.report import report
from launcher.run.python_choice import python_note
from launcher.run.record import RunRecord
from launcher.run.result import RunResult
from launcher.run.run import Run
from launcher.run_directory.chief_files import kept_line, newest_step
from launcher.run_directory.remote_logs import RemoteLogs
from launcher.run_directory.state import RunHost
from launcher.run_directory.whole_files import holds_something, relative

LAST_WORDS = 1.0
"""Seconds that a console which is stuck at the end gets for the launcher's last lines."""
DRAIN_LOOK = 0.1
"""Seconds between two looks for a Ctrl-C while a slow console catches up."""


class RunObserver:
    """Sees every event of a run. It decides nothing, and what cannot be written ends no run."""

    def __init__(self, run: Run, acknowledge: Callable[[Task, int], None]) -> None:
        """`acknowledge` is told how much of a worker's log is dealt with."""
        self._run = run
        self._directory = run.directory
        self._began = time.monotonic()
        self._console = Console(
            acknowledge,
            quiet=run.request.quiet,
            show_noise=run.request.verbose,
            no_color=run.request.no_color,
            stdout=STDERR if run.request.as_json else STDOUT,
        )
        self.say = self._console.say
        self.record = RunRecord(run, self.complain)
        self._event_log = EventLog(run.directory.events_file, self.complain)
        self._remote_logs = RemoteLogs(self.complain)
        self._logs: dict[Task, Path] = {}
        self._said_once: set[str] = set()

    def complain(self, text: str) -> None:
        """Say what a quiet console shows, too."""
        self.say(text, error=True)

    def say_once(self, text: str, *, error: bool = False) -> None:
        """However often a host that stays away is called, what is said of it is said once."""
        if text not in self._said_once:
            self._said_once.add(text)
            self.say(text, error=error)

    def all_are_back(self) -> None:
        """What is said of hosts that are away counts anew."""
        self._said_once.clear()

    # ---- attempt after attempt
    def begin(self, plan: AttemptPlan) -> None:
        """An attempt starts."""
        self._directory.make_attempt(plan.attempt)
        self._logs = {each.task: self._directory.log(plan.attempt, each.task) for each in plan.tasks}
        remote = {each.task: self._logs[each.task] for each in plan.tasks if each.host != LOCALHOST}
        self._remote_logs.begin(remote)
        self._console.begin_attempt({task: relative(log) for task, log in self._logs.items()})

    def on_event(self, event: events.Event) -> None:
        """Show and write down what happens."""
        match event:
            case events.LogChunk():
                self._remote_logs.write(event.task, event.offset, event.data)
                self._console.show_log(event.task, event.data)
                return
            case events.Answer():
                return
            case events.HostAwaited():
                self.say_once(event.line)
            case events.HostSilent() | events.HostAnswersAgain():
                self.say(event.line)
            case events.StrangerRefused() | events.GateFailed():
                self.complain(event.line)
            case events.LogEnded():
                self._console.end_log(event.task)
            case events.Interrupted() | events.StopRequested():
                self._console.interrupt()
        self._event_log.append(event)

    def announce(self, plan: AttemptPlan, hosts: Sequence[RunHost], facts: Mapping[str, HostFacts] | None) -> None:
        """The first worker of an attempt runs. `facts`: what the hosts have told, at the first attempt of a launch."""
        self.record.begin(plan, hosts, is_first=facts is not None)
        notes = {LOCALHOST: python_note(self._run.cluster)}
        where = ", ".join(name + notes.get(name, "") for name in dict.fromkeys(each.host for each in plan.tasks))
        tasks = counted(each.task for each in plan.tasks)
        self.say(f"{tasks} on {where}; run directory {relative(self._directory.path)}")
        if facts is not None and len(self._run.cluster.hosts) > 1:
            addresses = {each.host: each.address.rpartition(":")[0] for each in plan.tasks}
            open_hosts = addresses if plan.admitted == "all" else plan.unheld
            for line in start_warnings(facts, addresses, open_hosts):
                self.say(line)

    def tell_last_places(self, endings: Sequence[Ending], plan: AttemptPlan) -> None:
        """Where each worker was when the user stopped the run."""
        from launcher.run.failure.interrupted import last_places  # it reads logs: patterns again, as for a failure

        workdirs = {each.task: each.workdir for each in plan.tasks}
        for line in last_places(endings, lambda task, place: place.removeprefix(f"{workdirs[task]}/")):
            self.say(line)

    def tell_of(self, failure: Failure | None) -> None:
        """Report what brought an attempt down, if anything did."""
        if failure is None:
            return
        log = self._logs.get(failure.task) if failure.task is not None else None
        self.complain("\n".join(report(failure, relative(log) if log and holds_something(log) else None)))

    # ---- at the end
    def end_logs(self) -> None:
        self._remote_logs.close()

    def bring(self, result: RunResult, hosts: Sequence[RunHost]) -> None:
        """All workers have ended. Files of other hosts are brought, which may take long."""
        if any(host.name != LOCALHOST for host in hosts):
            self.record.bring(result, hosts)

    def end_events(self) -> None:
        self._event_log.close()

    def show_what_is_left(self, inbox: Inbox) -> None:
        """Let a slow console show every line that came; a further Ctrl-C gives it up (the files have them all)."""
        while not self._console.drain(timeout=DRAIN_LOOK):
            if isinstance(receive(inbox, 0), events.Interrupted):
                return

    def tell_end(self, result: RunResult) -> None:
        """How the run ended."""
        last_line = result.last_line(time.monotonic() - self._began)
        if last_line is not None:
            self.say(last_line)
        else:
            self.tell_of(result.failure)

    def tell_of_files(self) -> None:
        """What the chief has left."""
        line = kept_line(self._directory.chief)
        if line is not None:
            self.say(line)

    def tell_how_to_go_on(self, result: RunResult, hosts: Sequence[RunHost]) -> None:
        """After a stop; and after a failure, if there is a checkpoint to go on from."""
        if not hosts or result.state == "done":
            return
        if result.state == "stopped" or newest_step(self._directory.chief) is not None:
            self.say(f"go on with: {launch_command()} --resume {shlex.quote(self._directory.as_argument)}")

    def print_result(self, result: RunResult) -> None:
        """For a program that reads it (`--json`)."""
        if self._run.request.as_json:
            write_out(json.dumps(result.as_record()) + "\n")

    def close(self) -> None:
        self._console.close(timeout=LAST_WORDS)
