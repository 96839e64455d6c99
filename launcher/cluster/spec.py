"""Tasks, the cluster spec and `TF_CONFIG`: TensorFlow's view of a run. Pure."""

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

TASK_TYPES = ("chief", "worker", "ps", "evaluator")
"""The task types TensorFlow knows, in the order in which tasks are listed and started."""

SERVICE_TYPES = ("ps", "evaluator")
"""Tasks that serve or watch the training: they are stopped once it is done."""


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """One process of the cluster, named as TensorFlow names it."""

    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type} {self.index}"

    @classmethod
    def of_slug(cls, slug: str) -> Task:
        """The task that a slug names."""
        kind, _, index = slug.rpartition("-")
        return cls(kind, int(index))

    @property
    def slug(self) -> str:
        """The task's name in file names and on the wire: `worker-0`."""
        return f"{self.type}-{self.index}"


class ClusterSpec(NamedTuple):
    """Which task listens where: task -> `address:port` (an IPv6 address stands in brackets)."""

    addresses: Mapping[Task, str]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks: chief, workers, parameter servers, evaluators, each type by index."""
        return in_order(self.addresses)

    @property
    def chief(self) -> Task:
        """The task that owns logs, checkpoints and exports."""
        return chief_of(self.addresses)


def in_order(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Sort tasks as TensorFlow lists them: by type (`TASK_TYPES`), then by index."""
    return tuple(sorted(tasks, key=lambda task: (TASK_TYPES.index(task.type), task.index)))


def chief_of(tasks: Iterable[Task]) -> Task:
    """The `chief` task, else `worker 0`, else the first task there is.

    Raises:
        ValueError: there is no task at all.
    """
    ordered = in_order(tasks)
    if not ordered:
        raise ValueError("a cluster needs at least one task")
    return ordered[0]


def has_coordinator(tasks: Iterable[Task]) -> bool:
    """Whether the chief alone trains, by sending steps to the workers: it does where there are parameter servers.

    As TensorFlow's `ClusterCoordinator` has it: workers and parameter servers then serve until somebody ends them.
    """
    return {"chief", "ps"} <= {task.type for task in tasks}


def trained_by(tasks: Iterable[Task]) -> set[Task]:
    """The tasks whose success is that of the training: the chief where it coordinates, else chief and workers."""
    everybody = set(tasks)
    if has_coordinator(everybody):
        return {chief_of(everybody)}
    return {task for task in everybody if task.type not in SERVICE_TYPES} or everybody


def number_tasks(hosts: Iterable[Mapping[str, int]]) -> tuple[tuple[Task, ...], ...]:
    """Give every task its index: each type counts on from host to host, in the order of the hosts.

    Args:
        hosts: for each host, how many tasks of each type it runs.

    Returns:
        For each host its tasks, in TensorFlow's order.
    """
    used: Counter[str] = Counter()
    numbered = []
    for counts in hosts:
        numbered.append(in_order(Task(kind, used[kind] + i) for kind, count in counts.items() for i in range(count)))
        used.update(counts)
    return tuple(numbered)


def dialled_at(address: str, port: int | str) -> str:
    """`address:port` as TensorFlow splits it, at the last colon: an IPv6 address goes into brackets."""
    return f"[{address}]:{port}" if ":" in address and not address.startswith("[") else f"{address}:{port}"


def is_loopback(address: str) -> bool:
    """Whether an address means the machine itself, whoever dials it."""
    if address == "127.0.0.1":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address.partition(".")[0] == "localhost"


def tf_config(spec: ClusterSpec, task: Task) -> str:
    """The value of `TF_CONFIG` for one task, as JSON.

    An evaluator is a cluster of its own, and nobody else sees it. TensorFlow's own coordinator splits it off in this
    way (`tensorflow/python/distribute/distribute_coordinator.py`, `_split_cluster_for_evaluator`), and each half has
    a reason:

    - The evaluator must find itself: `MultiWorkerMirroredStrategy` counts its workers as
      `len(cluster_spec["evaluator"])` (`distribute/multi_worker_util.py`, `worker_count`), a KeyError where it is
      missing. It must not find the others: outside the coordination service, which takes in chief and workers only,
      the strategy checks the health of every task in the spec and aborts with the first one that ends
      (`distribute/collective_all_reduce_strategy.py`, `_initialize_multi_worker` and `_check_health`).
    - The others must not find the evaluator: it comes and goes without being part of the training, and op placement
      must not reach it.

    Raises:
        ValueError: the task is not in the spec, or its indices have gaps (TensorFlow numbers a list from 0).
    """
    if task not in spec.addresses:
        raise ValueError(f"{task} is not in the cluster: {', '.join(map(str, spec.tasks))}")
    alone = task.type == "evaluator"
    cluster: dict[str, list[str]] = {}
    for each in spec.tasks:
        if (each.type == "evaluator") == alone:
            addresses = cluster.setdefault(each.type, [])
            if each.index != len(addresses):
                raise ValueError(f"{each.type} {len(addresses)} is missing, yet there is a {each}")
            addresses.append(spec.addresses[each])
    return json.dumps({"cluster": cluster, "task": {"type": task.type, "index": task.index}})
