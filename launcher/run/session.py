"""A run from its first attempt to its last line: everything is wired together here, and only here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from launcher.cluster.cluster import Cluster
from launcher.cluster.plan import brings_training
from launcher.errors import EXIT_HOST, EXIT_WORKERS_FAILED, LaunchError
from launcher.hosts.all_hosts import Hosts
from launcher.hosts.attending import StopRequestedError
from launcher.hosts.inbox import Inbox
from launcher.run.attempts import Attempts
from launcher.run.host_contexts import Names, remote_run_dir, support_files
from launcher.run.last_steps import whatever_comes
from launcher.run.observer import RunObserver
from launcher.run.request import Request
from launcher.run.result import RunResult
from launcher.run.run import Run
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.hold import LAUNCH, Hold

if TYPE_CHECKING:
    from launcher.run.resuming.resumption import Resumption  # needed only by a run that goes on


class Session:
    """A run under way: what happens to it (`Attempts`), and what is shown and written down of it (`RunObserver`)."""

    def __init__(
        self, cluster: Cluster, request: Request, hosts: Hosts, inbox: Inbox, earlier: Resumption | None = None
    ) -> None:
        started = datetime.now().astimezone()
        directory = earlier.directory if earlier else RunDirectory.create(request.runs_dir, cluster.name, started)
        self._hold = None if earlier else Hold(directory.path, LAUNCH)
        names = Names.of(directory.name, earlier.run_id if earlier else "")
        host_of = {task: host.name for host in cluster.hosts for task in host.tasks}
        self._run = Run(cluster, request, directory, names, started)
        self._hosts = hosts
        self._inbox = inbox
        self._observer = RunObserver(self._run, lambda task, count: hosts.acknowledge(host_of[task], task, count))
        for note in earlier.told(cluster) if earlier else ():
            self._observer.say(note)
        self._attempts = Attempts(self._run, hosts, inbox, self._observer)

    def to_its_end(self) -> RunResult:
        """Attempts until one succeeds or the restart policy gives up; the last lines say how it went."""
        exit_code = EXIT_WORKERS_FAILED
        try:
            self._run.directory.make_chief()
            self._bring_support()
            self._attempts.until_the_last()
            exit_code = self._attempts.result.exit_code
        except StopRequestedError as stopped:
            if stopped.host:
                self._observer.complain(f"{stopped.host} was asked to end the run")
            exit_code = 128 + stopped.signal
        except LaunchError as error:
            exit_code = error.exit_code
            raise
        finally:
            result = self._finish(self._attempts.result._replace(exit_code=exit_code))
            if self._hold is not None:
                self._hold.release()
        return result

    def _bring_support(self) -> None:
        """Hosts behind ssh get what their workers need of ours."""
        run = self._run
        remote = [host for host in run.cluster.hosts if not host.is_local]
        if remote:
            training = brings_training(*run.cluster.commands)
            files = support_files(run.names, fix_keras=not run.request.no_keras_fix, training=training)
            for host in remote:
                self._hosts.put_files(host.name, remote_run_dir(host, run.names), files)

    def _finish(self, result: RunResult) -> RunResult:
        """Bring what is left, write down how the run ended, then tell it, after all that the workers wrote."""
        observer, files, hosts = self._observer, self._attempts.files, self._attempts.hosts
        take_step = functools.partial(whatever_comes, complain=observer.complain)
        take_step(observer.end_logs)
        take_step(lambda: observer.bring(result, hosts))
        not_here = take_step(files.gather_the_rest)
        if not result.exit_code:
            result = result._replace(exit_code=EXIT_HOST if not_here is None else not_here)
        steps: list[Callable[[], object]] = [
            lambda: observer.record.end(result, hosts),  # first: it is true whatever fails below
            self._attempts.close,
            lambda: observer.show_what_is_left(self._inbox),
            files.tell_what_is_not_here,
            lambda: observer.tell_end(result),
            observer.tell_of_files,
            lambda: observer.tell_how_to_go_on(result, hosts),
            observer.end_events,
            lambda: observer.print_result(result),
            observer.close,
        ]
        for step in steps:
            take_step(step)
        return result
