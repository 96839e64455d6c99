"""`--resume`: going on with an earlier run as it was begun, but for what the command line says otherwise."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from launcher.caller.own_files import ForeignError, read_own
from launcher.caller.standard_output import write_error
from launcher.caller.working_directory import working_directory
from launcher.cluster.cluster import Cluster
from launcher.cluster.file.reading import read_cluster_file
from launcher.cluster.placeholders import kept
from launcher.cluster.redaction import REDACTED
from launcher.errors import ClusterFileError, UsageError
from launcher.hosts.access import chosen_options
from launcher.run.request import FOR_ONE_LAUNCH, Request
from launcher.run.resuming.left_workers import await_their_end
from launcher.run.resuming.ssh_consent import ask_for_options
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.finding import find
from launcher.run_directory.hold import DRY_RUN, LAUNCH, Hold
from launcher.run_directory.state import LOST, RunState
from launcher.run_directory.whole_files import relative


class Resumption(NamedTuple):
    """An earlier run that goes on."""

    directory: RunDirectory
    request: Request
    """The earlier one and the command line's, together."""
    notes: tuple[str, ...]
    """What the user is told of it, a line each."""
    state: RunState
    """As the earlier launcher has left it."""
    names_cluster: bool
    """The cluster file is the one that the run names, not one of the command line."""

    @property
    def run_id(self) -> str:
        """The earlier run id; empty: a copy gets one of its own, for the run that it was made of may go on as well."""
        is_copy = self.state.inode not in (0, self.directory.inode)
        return "" if is_copy else self.state.lasting_id()

    def told(self, cluster: Cluster) -> Iterator[str]:
        """What the user is told at the start: the notes, and whether the hosts are others than before."""
        yield from self.notes
        now, before = [host.name for host in cluster.hosts], [host.name for host in self.state.hosts]
        if before and set(now) != set(before):
            yield f"other hosts than before: {', '.join(now)} (before: {', '.join(before)})"

    def ask_for_options(self, cluster: Cluster) -> None:
        """Return if the options for ssh of a cluster file that the run names may be used.

        Raises:
            UsageError: they may not.
        """
        if self.names_cluster and not self.request.trust_ssh_options:
            options = {host.name: chosen_options(host) for host in cluster.hosts if not host.is_local}
            ask_for_options(self.directory, self.state, options)


@contextlib.contextmanager
def resumed(request: Request) -> Iterator[Resumption]:
    """What `--resume` means. No other launcher has the run while this lasts.

    Raises:
        UsageError: there is no such run, another launcher has it, or what it was begun with must be said again.
    """
    directory = find(request.runs_dir, request.resume, lambda line: write_error(f"launch: {line}"))
    hold = Hold(directory.path, DRY_RUN if request.dry_run else LAUNCH, take_over=request.take_over)
    try:
        state = directory.read_final_state(take_over=request.take_over)
        if state.state == LOST and not request.dry_run:
            await_their_end(directory.name, directory.chief)
        yield _resumption(directory, state, request)
    finally:
        hold.release()


def _resumption(directory: RunDirectory, state: RunState, request: Request) -> Resumption:
    notes = [f"the launcher of {directory.name} had gone {state.loss}"] if state.state == LOST else []
    if not state.request:  # begun before requests were written down
        if not request.start_on:
            raise UsageError(f"{directory.name} does not say how it was begun: add --cluster FILE or --workers N")
        return Resumption(directory, request, tuple(notes), state, names_cluster=False)
    earlier = Request.of_record(state.request)
    if request.start_on and request.cluster is None and earlier.cluster is not None and not earlier.command:
        earlier = earlier._replace(command=state.command)  # the file's own, which no longer counts
    together = _with_secrets(_together(request, earlier))
    if state.hosts or directory.cluster_file.exists():  # else no worker was started: the cluster file counts as it is
        together = _with_unchanged_cluster(together, request, directory)
    if any(REDACTED in word for word in together.command):
        shown = shlex.join(together.command)
        raise UsageError(
            f"the command of {directory.name} has a secret, which is not written down: add -- and all of "
            f"the command ({shown})"
        )
    notes.extend(_differences(directory, together, earlier))
    return Resumption(directory, together, tuple(notes), state, names_cluster=request.cluster is None)


def _together(request: Request, earlier: Request) -> Request:
    """The request in which all that the command line leaves out is as it was."""
    as_before = {
        key: value
        for key, value in earlier._asdict().items()
        if key not in FOR_ONE_LAUNCH and _is_unsaid(getattr(request, key))
    }
    if request.start_on:
        as_before |= {"cluster": request.cluster, "hosts": request.hosts, "workers": request.workers}
    if request.command:
        as_before["directory"] = None
    return request._replace(**as_before | {"env": {**(earlier.env or {}), **(request.env or {})}})


def _is_unsaid(value: object) -> bool:
    return value is None or value is False or value in ((), {})


def _with_secrets(together: Request) -> Request:
    """Secrets of `--env` are as they are set here: nobody has written them down.

    Raises:
        UsageError: one is not set.
    """
    env = dict(together.env or {})
    secrets = [key for key, value in env.items() if value == REDACTED]
    if missing := [key for key in secrets if key not in os.environ]:
        remedy = "a secret, which is not written down: set it here again, or add --env KEY=VALUE"
        raise UsageError("\n".join(f"--env {key}: {remedy}" for key in missing))
    return together._replace(env=env | {key: kept(os.environ[key]) for key in secrets})


def _with_unchanged_cluster(together: Request, request: Request, directory: RunDirectory) -> Request:
    """The cluster file of the run's beginning: the file itself where it is still the same, else the run's copy.

    Raises:
        UsageError: only a copy without its secrets is left.
    """
    if together.cluster is None or request.cluster is not None:
        return together
    if is_unchanged(together.cluster, directory):
        return together
    copy = _copy(directory)
    if copy is None or REDACTED in copy:
        changed = f"{relative(together.cluster)} is no longer what it was when {directory.name} began"
        raise UsageError(f"{changed}, and secrets are not written down: add --cluster FILE")
    return together._replace(cluster_copy=directory.cluster_file)


def is_unchanged(cluster: Path, directory: RunDirectory) -> bool:
    """Whether a cluster file is still what it was when a run began with it."""
    copy = _copy(directory)
    return copy is not None and _redacted_text(cluster) == copy


def _copy(directory: RunDirectory) -> str | None:
    """The run's own copy of its cluster file; None: it has none.

    Raises:
        UsageError: somebody else may have written it.
    """
    try:
        return read_own(directory.path, directory.cluster_file.name).decode("utf-8")
    except ForeignError as error:
        raise UsageError(str(error)) from error
    except FileNotFoundError:
        return None


def _redacted_text(cluster: Path) -> str | None:
    try:
        source = read_cluster_file(cluster).source
    except ClusterFileError:
        return None  # it is gone, or has become something else
    return source and source.redacted()


def _differences(directory: RunDirectory, together: Request, earlier: Request) -> Iterator[str]:
    now, before = shlex.join(_words(together)), shlex.join(_words(earlier))
    if now == before:
        yield f"going on with {directory.name} as it was begun: {now}"
    else:
        yield f"going on with {directory.name}: {now} (before: {before})"
    if together.cluster_copy is not None:
        yield (
            f"{relative(earlier.cluster or '')} has changed or gone since: the run's own copy, "
            f"{relative(together.cluster_copy)}, is used; --cluster FILE takes another"
        )
    elif together.cluster and now == before and _copy(directory) and not is_unchanged(together.cluster, directory):
        yield f"{relative(together.cluster)} has changed since, and is used as it is now"
    if together.directory not in (None, Path(working_directory())):
        yield f"paths begin at {together.directory}, as before"


def _words(request: Request) -> Iterator[str]:
    """The options and the command of a request as they would be typed; secrets are redacted."""
    record = request.as_record()
    env, command = record.pop("env"), record.pop("command")
    for key, value in record.items():
        if not _is_unsaid(value) and key != "directory":
            yield from [f"--{key.replace('_', '-')}", *([] if value is True else [str(value)])]
    for key, value in env.items():
        yield from ["--env", f"{key}={value}"]
    if command:
        yield from ["--", *command]
