"""`launch collect`: gather the files that a run has left on its hosts."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import click

from launcher.caller.called_as import launch_command
from launcher.caller.standard_output import write_error
from launcher.cluster.cluster import Host, Ssh
from launcher.cluster.defaults import LEASE, LOCALHOST
from launcher.cluster.redaction import REDACTED
from launcher.commands import options
from launcher.console.console import Console
from launcher.errors import EXIT_DONE, EXIT_HOST, EXIT_WORKERS_FAILED, UsageError
from launcher.gathering.conversation import HostAwayError
from launcher.gathering.gathering import Gathering
from launcher.gathering.host_gatherer import HostGatherer
from launcher.gathering.report import brought_line
from launcher.hosts import events
from launcher.hosts.access import chosen_options
from launcher.hosts.all_hosts import Hosts
from launcher.hosts.attending import attend
from launcher.hosts.inbox import Inbox, signals_into
from launcher.run.request import Request, requested_cluster
from launcher.run.resuming.resumption import is_unchanged
from launcher.run.resuming.ssh_consent import ask_for_options
from launcher.run_directory.chief_files import kept_line
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.finding import find
from launcher.run_directory.hold import COLLECT, HeldError, Hold
from launcher.run_directory.state import LOST, RunHost, RunState
from launcher.run_directory.whole_files import relative

EPILOG = """\b
RUN is the name of a run, the path of its directory, or `latest`; without it, the run that was started last is meant.
What is here already is not sent again. Nothing on the hosts is changed.

\b
Exit codes: 0 done, 1 not all could be written here, 2 no such run, 3 a host is away, 130 interrupted.
"""


@click.command(cls=options.LaunchCommand, context_settings=options.SETTINGS, epilog=EPILOG)
@options.runs_dir
@options.take_over
@options.trust_ssh_options
@click.argument("run", required=False)
def command(run: str | None, runs_dir: Path, *, take_over: bool, trust_ssh_options: bool) -> None:
    """Bring the files that a run has left on other hosts: the chief's, and all workers' logs."""
    directory = find(runs_dir, run, lambda line: write_error(f"launch: {line}"))
    with _held(directory, take_over) as is_running:
        state = directory.read_state() if is_running else directory.read_final_state(take_over=take_over)
        state = replace(state, hosts=with_secrets(state, directory))
        if not trust_ssh_options:
            ask_for_options(directory, state, {host.name: host.ssh_options for host in state.hosts})
        raise SystemExit(collect(directory, state, is_running=is_running))


@contextlib.contextmanager
def _held(directory: RunDirectory, take_over: bool) -> Iterator[bool]:
    """Hold the run's directory within this block, unless its launcher is alive; yields whether it is.

    Raises:
        UsageError: another process collects its files, or may hold the directory.
    """
    try:
        hold = Hold(directory.path, COLLECT, take_over=take_over)
    except HeldError as held:
        if not (held.is_running and held.by_lock):
            raise
        hold = None  # the launcher and this command take turns by the lock of `gathered.jsonl`
    try:
        yield hold is None
    finally:
        if hold is not None:
            hold.release()


def collect(directory: RunDirectory, state: RunState, *, is_running: bool = False) -> int:
    """Gather a run's files from its hosts; return the exit code. `is_running`: its launcher is alive.

    Raises:
        LaunchError: nothing can be written here.
    """
    console = Console(lambda *_: None)
    inbox: Inbox = SimpleQueue()
    directory.make_chief()
    if is_running:
        console.say("this run still goes on")
    elif state.state == LOST:
        console.say(f"the launcher of this run has gone {state.loss}")
    if all(host.name == LOCALHOST for host in state.hosts):
        console.say("all of this run is here: it had no other hosts")
    remote = [as_host(host) for host in state.hosts if host.name != LOCALHOST]
    with signals_into(inbox), Hosts(remote, inbox, LEASE) as hosts:
        gathering = Gathering(
            directory,
            state.collect,
            hosts.send,
            console.say,
            ended=lambda: inbox.put(events.GatheringEnded()),
            refuse=hosts.give_up,
            still_running=is_running,
        )
        gathering.begin(state.hosts, hosts.is_lost)
        gathering.finish()
        interrupted = _attend(gathering, hosts, inbox, console)
    for each in gathering.outcomes:
        console.say(brought_line(each.host.name, each.gathered))
    all_here = gathering.tell(f"{launch_command()} collect {shlex.quote(relative(directory.path))}")
    line = kept_line(directory.chief)
    if line is not None:
        console.say(line)
    console.close()
    return interrupted or (EXIT_DONE if all_here else _exit_code(gathering.outcomes))


def _attend(gathering: Gathering, hosts: Hosts, inbox: Inbox, console: Console) -> int:
    """Handle the hosts' events until everything is gathered; return 0, or the exit code for a signal."""
    for each in attend(hosts, inbox, lambda: gathering.is_over):
        match each:
            case (events.Answer() | events.HostLost()) as event:
                gathering.hear(event)
            case (events.HostAwaited() | events.HostSilent() | events.HostAnswersAgain()) as event:
                console.say(event.line)
            case events.Interrupted(number):
                gathering.give_up()
                return 128 + number
    return 0


def with_secrets(state: RunState, directory: RunDirectory) -> tuple[RunHost, ...]:
    """The hosts of a run with complete ssh options: secrets among them are only in the cluster file.

    Raises:
        UsageError: that file is missing or has changed.
    """
    if not any(REDACTED in word for host in state.hosts for word in host.ssh_options):
        return state.hosts
    request = Request.of_record(state.request)
    if request.cluster is None or not is_unchanged(request.cluster, directory):
        raise UsageError(
            f"the options for ssh of {directory.name} have a secret, which is not written down, and "
            f"{relative(request.cluster or '')} is no longer what it was: put it back as it was when the run began"
        )
    options = {host.name: tuple(chosen_options(host)) for host in requested_cluster(request).hosts if not host.is_local}
    return tuple(replace(host, ssh_options=options.get(host.name, host.ssh_options)) for host in state.hosts)


def as_host(host: RunHost) -> Host:
    """A host from the state of a run, with what is needed to reach it."""
    return Host(host.name, (), ssh=Ssh(None, host.connect_timeout, host.ssh_options))


def _exit_code(outcomes: Sequence[HostGatherer]) -> int:
    away = any(isinstance(each.trouble, HostAwayError) for each in outcomes)
    return EXIT_HOST if away else EXIT_WORKERS_FAILED
