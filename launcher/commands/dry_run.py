"""`--dry-run`: the whole plan of the first attempt, for a person or a machine."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import portpicker
from rich.console import Console

from launcher.caller.working_directory import working_directory
from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.plan import AttemptPlan, TaskPlan, plan_attempt
from launcher.cluster.spec import ClusterSpec, Task, dialled_at
from launcher.errors import HostError
from launcher.hosts.reachability import LOOPBACK
from launcher.run.host_contexts import Names, host_contexts
from launcher.run.request import Request
from launcher.run.resuming.resumption import Resumption
from launcher.run_directory.directory import RunDirectory
from launcher.sync.project import Project, read_project
from launcher.wording import amount, counted, harmless, listed

ANY_PORT = "0"
"""In JSON: a port of another host, which is not asked, and whose `ports` does not say it."""
CHOSEN_AT_START = "<chosen at start>"
"""The same in text for people."""
UNKNOWN_DIGITS = "<digits>"
"""Stands for the random digits that a start adds to names on hosts behind ssh."""

ADMITTED = {
    "loopback": "only this machine may connect to the tasks' ports, at its loopback addresses",
    "hosts": "only the hosts of the run may connect to the tasks' ports",
    "all": "anybody may connect to the tasks' ports (network: {open: true})",
}


def planned(cluster: Cluster, request: Request, earlier: Resumption | None = None) -> str:
    """What `--dry-run` prints: the next attempt, with ports that are free now (a real run holds ports of its own)."""
    unknown_port = ANY_PORT if request.as_json else CHOSEN_AT_START
    spec = supposed_spec(cluster.hosts, unknown_port)
    supposed = RunDirectory(
        Path(working_directory(), request.runs_dir) / RunDirectory.name_for(cluster.name, datetime.now())
    )
    directory = earlier.directory if earlier else supposed
    names = Names.of(directory.name, earlier.run_id if earlier else "", lambda: UNKNOWN_DIGITS)
    contexts = host_contexts(cluster, directory, names, {}, fix_keras=not request.no_keras_fix)
    plan = plan_attempt(cluster, spec, contexts, names.run_id, directory.next_attempt())
    project = sent_project(cluster, [request.runs_dir])
    if request.as_json:
        return as_json(plan, project) + "\n"
    return as_text(plan, project, color=sys.stdout.isatty())


def supposed_spec(hosts: Sequence[Host], unknown_port: str) -> ClusterSpec:
    """The cluster spec, as far as it is known without asking any host.

    Args:
        hosts: all of the cluster.
        unknown_port: stands for a port that is only chosen at the start: `ANY_PORT` or `CHOSEN_AT_START`.

    Raises:
        HostError: this machine has too few free ports for its tasks.
    """
    alone = len(hosts) == 1
    addresses = {host.name: host.address or (LOOPBACK if alone else host.name.rpartition("@")[2]) for host in hosts}
    return ClusterSpec(
        {
            task: dialled_at(addresses[host.name], port)
            for host in hosts
            for task, port in _ports(host, unknown_port).items()
        }
    )


def _ports(host: Host, unknown: str) -> Mapping[Task, int | str]:
    if host.is_local:
        return _free_ports(host)
    first = host.ports.first if host.ports else None
    return {task: unknown if first is None else first + n for n, task in enumerate(host.tasks)}


def _free_ports(host: Host) -> dict[Task, int]:
    """One free port for each task of a host, from its `ports` if it names some (portpicker knows portservers).

    Raises:
        HostError: the range has too few free ports for the tasks.
    """
    if host.ports is None:
        return {task: portpicker.pick_unused_port() for task in host.tasks}
    candidates = range(host.ports.first, host.ports.last + 1)
    found = [port for port in candidates if portpicker.is_port_free(port)][: len(host.tasks)]
    if len(found) < len(host.tasks):
        raise HostError(
            f"{host.name}: {len(host.tasks)} free ports are needed in {host.ports.first}-{host.ports.last}, "
            f"{len(found)} were found; change `ports`"
        )
    return dict(zip(host.tasks, found, strict=True))


def sent_project(cluster: Cluster, left_out: Iterable[Path]) -> Project | None:
    """What `sync` would send; None if there is no host to send it to.

    Raises:
        UsageError: a part of the project cannot be sent.
    """
    if cluster.sync is None or all(host.is_local for host in cluster.hosts):
        return None
    return read_project(cluster.sync, left_out)


def as_json(plan: AttemptPlan, project: Project | None = None) -> str:
    """The plan as one JSON object, with the paths of the project's files; secrets are redacted."""
    sent = project and {"directory": str(project.directory), "files": [file.path for file in project.files]}
    return json.dumps(plan.as_record() | ({"project": sent} if sent else {}), indent=2)


def as_text(plan: AttemptPlan, project: Project | None = None, width: int | None = None, color: bool = False) -> str:
    """The plan as text for people, one block for each task; secrets are redacted.

    Args:
        plan: what would be started.
        project: what would be sent before that.
        width: columns to fold at; None: no folding.
        color: whether headings are bold.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=width or 10_000,
        force_terminal=color,
        highlight=False,
        emoji=False,
        soft_wrap=width is None,
    )
    if project is not None:
        size = f"{counted(len(project.files), 'file')}, {amount(sum(file.size for file in project.files))}"
        console.print(f"project  {harmless(str(project.directory))}  {size}", style="bold", markup=False)
    console.print(f"network  {_who_may_connect(plan)}", style="bold", markup=False)
    for task in plan.tasks:
        console.print(f"{task.task}  on {task.host}  at {task.address}", style="bold", markup=False)
        for key, value in _lines(task):
            console.print(f"  {key:<8} {harmless(value)}", markup=False)
    return out.getvalue()


def _who_may_connect(plan: AttemptPlan) -> str:
    rule = ADMITTED[plan.admitted]
    if plan.unheld and plan.admitted != "all":
        rule += f"; anybody to those on {listed(plan.unheld)} (hold_ports: false)"
    return rule


def _lines(plan: TaskPlan) -> list[tuple[str, str]]:
    record = plan.as_record()
    env = [
        ("env" if not n else "", f"{key}={shlex.quote(value)}")
        for n, (key, value) in enumerate(sorted(record["env"].items()))
    ]
    return [
        ("command", shlex.join(record["argv"])),
        ("workdir", plan.workdir),
        ("log", plan.log),
        *env,
    ]
