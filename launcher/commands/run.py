"""From the command line's wishes to the exit code: which cluster, which hosts, then the run itself."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from launcher.caller.here import here
from launcher.caller.standard_output import write_out
from launcher.cluster.cluster import Cluster
from launcher.errors import EXIT_DONE
from launcher.hosts import events
from launcher.hosts.all_hosts import Hosts
from launcher.hosts.one_host import Inbox
from launcher.hosts.own_processes import adopt_orphans, end_what_is_left
from launcher.run.missing_program import refuse_missing_programs
from launcher.run.request import Request, requested_cluster

if TYPE_CHECKING:
    from launcher.run.result import RunResult
    from launcher.run.resuming.resumption import Resumption

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(request: Request) -> int:
    """Do what the command line asks, in a process of our own; return the exit code.

    Raises:
        LaunchError: nothing was started, or a host failed before any worker was.
    """
    if request.resume is None:
        return _run(request)
    from launcher.run.resuming.resumption import resumed

    with resumed(request) as earlier:
        return _run(earlier.request, earlier)


def _run(request: Request, earlier: Resumption | None = None) -> int:
    cluster = requested_cluster(request)
    if request.dry_run:
        write_out(planned(cluster, request, earlier))
        return EXIT_DONE
    refuse_missing_programs(cluster)
    if earlier is not None:
        earlier.ask_for_options(cluster)
    try:
        return launch(cluster, request, earlier, in_own_process=True).exit_code
    finally:
        end_what_is_left()


def planned(cluster: Cluster, request: Request, earlier: Resumption | None = None) -> str:
    """What `--dry-run` prints: the next attempt, with ports that are free now (a real run holds ports of its own)."""
    from launcher.cluster.plan import plan_attempt
    from launcher.commands import dry_run
    from launcher.run.host_contexts import Names, host_contexts
    from launcher.run_directory.directory import RunDirectory

    unknown_port = dry_run.ANY_PORT if request.as_json else dry_run.CHOSEN_AT_START
    spec = dry_run.supposed_spec(cluster.hosts, unknown_port)
    supposed = RunDirectory(Path(here(), request.runs_dir) / RunDirectory.name_for(cluster.name, datetime.now()))
    directory = earlier.directory if earlier else supposed
    names = Names.of(directory.name, earlier.run_id if earlier else "", lambda: dry_run.UNKNOWN_DIGITS)
    contexts = host_contexts(cluster, directory, names, {}, fix_keras=not request.no_keras_fix)
    plan = plan_attempt(cluster, spec, contexts, names.run_id, directory.next_attempt())
    project = dry_run.sent_project(cluster, [request.runs_dir])
    if request.as_json:
        return dry_run.as_json(plan, project) + "\n"
    return dry_run.as_text(plan, project, color=sys.stdout.isatty())


def launch(
    cluster: Cluster,
    request: Request,
    earlier: Resumption | None = None,
    *,
    in_own_process: bool = False,
) -> RunResult:
    """Run a cluster to its end: start, watch, stop, restart, and say how it went. `earlier`: the run that goes on.

    `in_own_process`: orphans of the run may become this process's children.

    Raises:
        LaunchError: nothing was started, or a host failed before any worker was.
    """
    inbox: Inbox = SimpleQueue()
    with signals_into(inbox), Hosts(cluster.hosts, inbox, cluster.timeouts.lease) as hosts:
        # Imported while the agents start: neither waits for the other.
        from launcher.run.session import Session

        if in_own_process:
            adopt_orphans()
        return Session(cluster, request, hosts, inbox, earlier).to_its_end()


@contextlib.contextmanager
def signals_into(inbox: Inbox) -> Iterator[None]:
    """While this lasts, a signal that ends programs becomes an event, and Ctrl-Z does nothing.

    A suspended launcher would send its agents no sign of life, and they would end the workers with the lease.
    """

    def interrupt(number: int, _frame: object) -> None:
        inbox.put(events.Interrupted(number))

    # nohup: a hangup that the user wants ignored stays so. Ctrl-C is heard even where a shell's `&` had it ignored.
    heard = [each for each in SIGNALS if each != signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
