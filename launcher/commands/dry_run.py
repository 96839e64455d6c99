"""`--dry-run`: the whole plan of the first attempt, for a person or a machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.plan import AttemptPlan, TaskPlan
from launcher.cluster.spec import ClusterSpec, Task, dialled_at
from launcher.commands.free_ports import free_ports
from launcher.hosts.reachability import LOOPBACK
from launcher.wording import amount, counted, harmless, listed

if TYPE_CHECKING:
    from launcher.sync.project import Project  # not needed where nothing is sent

ANY_PORT = "0"
"""Of a host that is not asked, and whose `ports` do not say: for machines."""
CHOSEN_AT_START = "<chosen at start>"
"""The same for a person."""
UNKNOWN_DIGITS = "<digits>"
"""In place of those that nobody knows before a start, in names on hosts behind ssh."""

ADMITTED = {
    "loopback": "only this machine may connect to the tasks' ports, at its loopback addresses",
    "hosts": "only the hosts of the run may connect to the tasks' ports",
    "all": "anybody may connect to the tasks' ports (network: {open: true})",
}


def supposed_spec(hosts: Sequence[Host], unknown_port: str) -> ClusterSpec:
    """Who would listen where, as far as that can be known without asking any host.

    Args:
        hosts: all of the cluster.
        unknown_port: what stands for a port that only a start chooses: `ANY_PORT` or `CHOSEN_AT_START`.

    Raises:
        HostError: this machine has not as many free ports as its tasks need.
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
        return free_ports(host)
    first = host.ports.first if host.ports else None
    return {task: unknown if first is None else first + n for n, task in enumerate(host.tasks)}


def sent_project(cluster: Cluster, left_out: Iterable[Path]) -> Project | None:
    """What `sync` would send, if there is a host to send it to.

    Raises:
        UsageError: a part of the project cannot be sent.
    """
    if cluster.sync is None or all(host.is_local for host in cluster.hosts):
        return None
    from launcher.sync.project import read_project

    return read_project(cluster.sync, left_out)


def as_json(plan: AttemptPlan, project: Project | None = None) -> str:
    """The plan as one JSON object, with the paths of the project's files; secrets are redacted."""
    sent = project and {"directory": str(project.directory), "files": [file.path for file in project.files]}
    return json.dumps(plan.as_record() | ({"project": sent} if sent else {}), indent=2)


def as_text(plan: AttemptPlan, project: Project | None = None, width: int | None = None, color: bool = False) -> str:
    """The plan for a person, a block a task; secrets are redacted.

    Args:
        plan: what would be started.
        project: what would be sent before.
        width: columns to fold at; None: the terminal's, or no folding where there is none.
        color: whether headings are emphasised.
    """
    import io

    from rich.console import Console

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
    told = ADMITTED[plan.admitted]
    if plan.unheld and plan.admitted != "all":
        told += f"; anybody to those on {listed(plan.unheld)} (hold_ports: false)"
    return told


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
