"""`--dry-run`: the whole plan of the first attempt, for a person or a machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from launcher.cluster import ClusterSpec, Task, dialled_at
from launcher.cluster_file import Host
from launcher.free_ports import free_ports
from launcher.plan import AttemptPlan, TaskPlan
from launcher.reachability import LOOPBACK

ANY_PORT = 0
"""Of a host that is not asked, and whose `ports` do not say."""


def supposed_spec(hosts: Sequence[Host]) -> ClusterSpec:
    """Who would listen where, as far as that can be known without asking any host.

    Raises:
        HostError: this machine has not as many free ports as its tasks need.
    """
    alone = len(hosts) == 1
    addresses = {host.name: host.address or (LOOPBACK if alone else host.name.rpartition("@")[2]) for host in hosts}
    return ClusterSpec(
        {task: dialled_at(addresses[host.name], port) for host in hosts for task, port in _ports(host).items()}
    )


def _ports(host: Host) -> dict[Task, int]:
    if host.is_local:
        return free_ports(host)
    first = host.ports.first if host.ports else None
    return {task: ANY_PORT if first is None else first + n for n, task in enumerate(host.tasks)}


def as_json(plan: AttemptPlan) -> str:
    """The plan as one JSON object; secrets are redacted."""
    return json.dumps(plan.as_record(), indent=2)


def as_text(plan: AttemptPlan, width: int | None = None, color: bool = False) -> str:
    """The plan for a person, a block a task; secrets are redacted.

    Args:
        plan: what would be started.
        width: columns to fold at; None: the terminal's, or no folding where there is none.
        color: whether headings are emphasised.
    """
    import io

    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=width or 10_000, force_terminal=color, highlight=False, soft_wrap=width is None)
    for task in plan.tasks:
        console.print(f"{task.task}  on {task.host}  at {task.address}", style="bold", markup=False)
        for key, value in _lines(task):
            console.print(f"  {key:<8} {value}", markup=False)
    return out.getvalue()


def _lines(plan: TaskPlan) -> list[tuple[str, str]]:
    record = plan.as_record()
    env = [
        ("env" if not n else "", f"{key}={shlex.quote(value)}")
        for n, (key, value) in enumerate(sorted(record["env"].items()))
    ]
    return [
        ("command", shlex.join(plan.argv)),
        ("workdir", plan.workdir),
        ("log", plan.log),
        *env,
    ]
