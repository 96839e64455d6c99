"""`launch leftovers`: lists what runs have left on hosts, and ends or removes it on request."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

import click

from launcher.caller.standard_output import write_error, write_out
from launcher.cluster.cluster import Host
from launcher.cluster.defaults import LEASE, LOCALHOST, REMOTE_RUNS_DIR
from launcher.cluster.file.reading import read_cluster_file
from launcher.commands import options
from launcher.errors import EXIT_DONE, EXIT_HOST, UsageError
from launcher.hosts import events
from launcher.hosts.all_hosts import Hosts
from launcher.hosts.attending import StopRequestedError, attend_until, never
from launcher.hosts.inbox import Inbox, signals_into
from launcher.hosts.transport import LEFTOVERS
from launcher.on_host.agent.messages import Command, Event
from launcher.on_host.leftovers.messages import (
    EVENTS,
    DirectoryRemoved,
    EndRun,
    FindLeftovers,
    LeftDirectory,
    LeftoversFound,
    LeftProcess,
    RemoveDirectory,
    RunEnded,
)
from launcher.wording import amount, duration, harmless_line

EPILOG = """\b
Processes are found by the run id in their environment (LAUNCH_RUN_ID), never by a program's name, and only your own
are looked at. RUN is the run id or, where no other run has that name, the name of the run's directory.

\b
While the agent of a run lives, the run is under way and nothing of it is left over: end it with Ctrl-C where it was
launched, or with --stop, which asks its launcher to do so.

\b
Examples:
  {launch} leftovers                                  what is on this machine
  {launch} leftovers gpu-a gpu-b                      what is on these hosts
  {launch} leftovers gpu-a --stop 20261121-101529-two_hosts
  {launch} leftovers gpu-a --remove 20261121-101529-two_hosts

\b
Exit codes: 0 done, 2 usage, 3 a host could not be asked or something could not be ended or removed, 130 interrupted.
"""
Answer = TypeVar("Answer", bound=Event)


@click.command(cls=options.LaunchCommand, context_settings=options.SETTINGS, epilog=EPILOG)
@click.argument("hosts", nargs=-1, metavar="[HOST ...]")
@click.option(
    "-c",
    "--cluster",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A cluster file: its hosts, with its options for ssh.",
)
@click.option("--stop", metavar="RUN", help="End a run: SIGTERM, then SIGKILL.")
@click.option("--remove", metavar="RUN", help="Delete the directories of a run that is not under way.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Between SIGTERM and SIGKILL.",
)
@click.option(
    "--run-dir", metavar="DIR", help=f"Above the directories of runs on the hosts.  [default: {REMOTE_RUNS_DIR}]"
)
@click.option("--yes", is_flag=True, help="Do not ask before something is ended or deleted.")
def command(hosts: tuple[str, ...], cluster: Path | None, run_dir: str | None, **given: object) -> None:
    """List what runs have left on this machine, or on hosts behind ssh: processes, and directories of runs."""
    named = named_hosts(hosts, cluster, run_dir)
    raise SystemExit(leftovers(named, Wishes(**given)))  # type: ignore[arg-type] # click has checked them


class Wishes(NamedTuple):
    """What the user wants done."""

    stop: str | None = None
    """The run to end."""
    remove: str | None = None
    """The run whose directories to delete."""
    grace: float = 5.0
    """Seconds."""
    yes: bool = False


def named_hosts(names: Sequence[str], file: Path | None, runs_dir: str | None) -> list[Host]:
    """The hosts to look at, each with the directory above its runs.

    Raises:
        UsageError: a name is invalid or not in the cluster file, or the file has mistakes.
    """
    known = {host.name: host for host in read_cluster_file(file).hosts} if file else {}
    for name in names:
        if not name.isprintable() or name.startswith("-") or (known and name not in known):
            where = f"no host of {file}" if known else "no host"
            raise UsageError(f"{harmless_line(name)}: this is {where}; name hosts as for ssh: gpu-a, me@gpu-b")
    chosen = [known.get(name, Host(name, ())) for name in dict.fromkeys(names or known or [LOCALHOST])]
    return [Host(each.name, (), ssh=each.ssh, runs_dir=runs_dir or each.runs_dir or REMOTE_RUNS_DIR) for each in chosen]


def leftovers(named: Sequence[Host], wishes: Wishes) -> int:
    """Find leftovers, show them, do what is asked; return the exit code."""
    inbox: Inbox = SimpleQueue()
    try:
        with signals_into(inbox), Hosts(named, inbox, LEASE, LEFTOVERS, EVENTS) as hosts:
            asking = Asking(hosts, inbox)
            asking.ask({host.name: FindLeftovers(host.runs_dir or "") for host in named})
            found = {
                host.name: answer for host in named if (answer := asking.answer(host.name, LeftoversFound)) is not None
            }
            write_out("".join(f"{line}\n" for name in found for line in shown(name, found[name])))
            for name in [host.name for host in named if host.name not in found]:
                complain(asking.why_not(name))
            acted = [stop(found, asking, wishes), remove(found, asking, wishes)]
            return EXIT_DONE if all(acted) and len(found) == len(named) else EXIT_HOST
    except StopRequestedError as stopped:
        return 128 + stopped.signal


class Asking:
    """Asks hosts, one command at a time for each."""

    def __init__(self, hosts: Hosts, inbox: Inbox) -> None:
        self._hosts = hosts
        self._inbox = inbox
        self._awaited: set[str] = set()
        self._answers: dict[str, Event] = {}
        self._losses: dict[str, str] = {}

    def ask(self, commands: dict[str, Command]) -> None:
        """Send a command to each of these hosts, and wait until all that are not lost have answered.

        Raises:
            StopRequestedError: a signal came.
        """
        self._answers.clear()
        self._awaited = commands.keys() - self._losses.keys()
        for name in self._awaited:
            self._hosts.send(name, commands[name])
        for _ in attend_until(self._hosts, self._inbox, lambda: not self._awaited, never, self._observe):
            pass

    def _observe(self, event: events.Event) -> None:
        match event:
            case events.Answer(host, message):
                self._answers[host] = message
                self._awaited.discard(host)
            case events.HostLost(host):
                self._losses[host] = event.complaint
                self._awaited.discard(host)
            case events.HostAwaited() | events.HostSilent() | events.HostAnswersAgain():
                write_error(f"leftovers: {event.line}")

    def why_not(self, host: str) -> str:
        """Why `answer` returned None."""
        return self._losses.get(host, f"{place(host)}: it has answered something else")

    def answer(self, host: str, kind: type[Answer]) -> Answer | None:
        """A host's last answer, if it has this type."""
        told = self._answers.get(host)
        return told if isinstance(told, kind) else None


# ---- showing
def shown(host: str, found: LeftoversFound) -> Iterable[str]:
    """The leftovers on a host as lines of text."""
    yield f"{place(host)}:"
    for run, members in groupby(sorted(found.processes, key=lambda each: each.run), lambda each: each.run):
        yield from shown_run(run, list(members))
    for each in found.directories:
        state = "  its run is under way" if each.is_used else ""
        yield f"  {harmless_line(each.path)}  {amount(each.size)}, last changed {duration(each.age)} ago{state}"
    if found.unlisted:
        yield f"  and {found.unlisted} more, which are not listed"
    if not found.processes and not found.directories:
        yield f"  nothing: no process of a run, no directory of one in {harmless_line(found.runs_dir)}"


def shown_run(run: str, members: Sequence[LeftProcess]) -> Iterable[str]:
    """The processes of one run as lines of text."""
    alone = sum(each.agent is None for each in members)
    state = f"{alone} of them left over: no agent above them lives" if alone else "its agent lives: it is under way"
    yield f"  run {harmless_line(run)}: {processes(len(members))}, {state}"
    for each in members:
        yield f"    {each.pid:>8}  {duration(each.age)}  {harmless_line(each.command_line)}"


def processes(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'}"


def place(host: str) -> str:
    return "this machine" if host == LOCALHOST else host


# ---- acting
def run_called(named: str, found: Iterable[LeftoversFound]) -> str:
    """The id of the run that the user means: its digits may be omitted if the name is unique.

    Raises:
        UsageError: several runs have that name.
    """
    listed = list(found)
    ids = {each.run for host in listed for each in host.processes}
    ids |= {each.name for host in listed for each in host.directories}
    meant = [named] if named in ids else sorted(each for each in ids if each.rpartition("-")[0] == named)
    if len(meant) > 1:
        digits = harmless_line(", ".join(meant))
        raise UsageError(f"several runs are called {named}; name one of them with its digits: {digits}")
    return meant[0] if meant else named


def stop(found: dict[str, LeftoversFound], asking: Asking, wishes: Wishes) -> bool:
    """End a run's processes on all hosts, if asked; return whether none is left."""
    if wishes.stop is None:
        return True
    run = run_called(wishes.stop, found.values())
    done = [_stop_on(host, there, run, asking, wishes) for host, there in found.items()]
    return all(done)


def _stop_on(host: str, found: LeftoversFound, run: str, asking: Asking, wishes: Wishes) -> bool:
    members = [each for each in found.processes if each.run == run]
    if not members:
        tell(f"{place(host)}: no process of run {run}")
        return True
    note = "; its agent lives, so the launcher ends the run on all hosts" if any(e.agent for e in members) else ""
    if not agreed(f"{place(host)}: end {processes(len(members))}{note}?", wishes):
        return False
    asking.ask({host: EndRun(run, wishes.grace)})
    ended = asking.answer(host, RunEnded)
    if ended is not None and ended.survivors:
        complain(f"{place(host)}: these processes could not be ended: {', '.join(map(str, ended.survivors))}")
        return False
    return _is_done(host, ended, asking, "ended")


def remove(found: dict[str, LeftoversFound], asking: Asking, wishes: Wishes) -> bool:
    """Delete a run's directories on all hosts, if asked; return whether that succeeded."""
    if wishes.remove is None:
        return True
    run = run_called(wishes.remove, found.values())
    done = []
    for host, there in found.items():
        directory = next((each for each in there.directories if each.name == run), None)
        if directory is None:
            tell(f"{place(host)}: no directory of run {run} in {harmless_line(there.runs_dir)}")
        else:
            done.append(_remove_on(host, directory, there.runs_dir, asking, wishes))
    return all(done)


def _remove_on(host: str, directory: LeftDirectory, runs_dir: str, asking: Asking, wishes: Wishes) -> bool:
    path = harmless_line(directory.path)
    if directory.is_used:
        complain(f"{place(host)}: {path} stays: its run is under way")
        return False
    if not agreed(f"{place(host)}: delete {path} ({amount(directory.size)})?", wishes):
        return False
    asking.ask({host: RemoveDirectory(runs_dir, directory.name)})
    removed = asking.answer(host, DirectoryRemoved)
    if removed is not None and removed.reason:
        complain(f"{place(host)}: {path} was not removed: {removed.reason}")
        return False
    return _is_done(host, removed, asking, "removed")


def _is_done(host: str, answer: Event | None, asking: Asking, done: str) -> bool:
    if answer is None:
        complain(asking.why_not(host))
        return False
    tell(f"{place(host)}: {done}")
    return True


def agreed(question: str, wishes: Wishes) -> bool:
    """Whether the user agrees. Without a terminal, only `--yes` does."""
    if wishes.yes:
        return True
    if not sys.stdin.isatty():
        complain(f"{question} Say so with --yes")
        return False
    return click.confirm(harmless_line(question), default=False)


def tell(line: str) -> None:
    """Print a line about what was done, at once."""
    write_out(f"{harmless_line(line)}\n")


def complain(text: str) -> None:
    """Print lines about what went wrong to stderr."""
    write_error(f"leftovers: {text}")
