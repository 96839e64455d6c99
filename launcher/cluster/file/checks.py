"""What the keys of a cluster file say together: `defaults` merged into each host, and contradictions found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.caller.working_directory import working_directory
from launcher.cluster.defaults import LOCALHOST
from launcher.cluster.file.file_text import Mistakes, shortened
from launcher.cluster.file.value_structures import Entries
from launcher.cluster.file.yaml_nodes import Node
from launcher.cluster.spec import is_loopback

WORK_KEYS = ("workers", "tasks")
"""Two ways of saying the same; a host that says neither runs one worker."""
ONE_OF_A_KIND = ("chief", "evaluator")
"""TensorFlow allows one of each (`tensorflow/python/distribute/multi_worker_util.py`, `_validate_cluster_spec`)."""

MAX_TASKS = 10_000


def merged_hosts(file: Entries, mistakes: Mistakes) -> tuple[Entries, ...]:
    """Each host with the file's `defaults` where it says nothing itself; `env` is merged variable by variable."""
    hosts: Sequence[Entries] = file.values.get("hosts", ())
    defaults: Entries | None = file.values.get("defaults")
    for entries in [*hosts, *([defaults] if defaults else [])]:
        _check_work_keys(entries, mistakes)
    return tuple(_merged(host, defaults) if defaults else host for host in hosts)


def _check_work_keys(entries: Entries, mistakes: Mistakes) -> None:
    if all(key in entries.given for key in WORK_KEYS):
        mistakes.add(
            entries.given["tasks"], "tasks and workers together; `workers: N` means `tasks: {worker: N}`: keep one"
        )


def _merged(host: Entries, defaults: Entries) -> Entries:
    replaced = [*host.given, *(WORK_KEYS if any(key in host.given for key in WORK_KEYS) else ())]
    values = {key: value for key, value in defaults.values.items() if key not in replaced} | dict(host.values)
    given = {key: node for key, node in defaults.given.items() if key not in replaced} | dict(host.given)
    if "env" in host.values and "env" in defaults.values:
        values["env"] = {**defaults.values["env"], **host.values["env"]}
    return Entries(host.node, values, given)


def task_counts(host: Entries) -> Mapping[str, int] | None:
    """How many tasks of each type a merged host runs; None where the file says it wrongly."""
    if "tasks" in host.given:
        tasks: Entries | None = host.values.get("tasks")
        return dict(tasks.values) if tasks and len(tasks.values) == len(tasks.node.entries) else None
    if "workers" in host.given:
        return {"worker": host.values["workers"]} if "workers" in host.values else None
    return {"worker": 1}


def check_hosts(hosts: Sequence[Entries], mistakes: Mistakes) -> None:
    """Note what contradicts itself within one host or between hosts."""
    _check_names(hosts, mistakes)
    if len(hosts) > 1:
        _check_addresses(hosts, mistakes)
    known = [(host, counts) for host in hosts if (counts := task_counts(host)) is not None]
    for host, counts in known:
        _check_host(host, counts, mistakes)
    if hosts and len(known) == len(hosts):
        _check_gang(known, mistakes)


def check_per_task(file: Entries, hosts: Sequence[Entries], mistakes: Mistakes) -> None:
    """Note a command for tasks that no host runs."""
    per_task: Entries | None = file.values.get("per_task")
    counts = [task_counts(host) for host in hosts]
    if per_task is None or None in counts:
        return
    run = {kind for each in counts if each for kind, count in each.items() if count}
    for kind, node in per_task.given.items():
        if kind not in run:
            found = f"a command for tasks of type {kind}, and no host runs one"
            mistakes.add(node, f"{found}; there are tasks of type {', '.join(sorted(run)) or 'none'}")


def check_sync(file: Entries, path: Path, mistakes: Mistakes) -> None:
    """Note a project directory that is none, or surely is not meant."""
    sync: Entries | None = file.values.get("sync")
    if sync is None or "from" not in sync.values:
        return
    directory = project_directory(path, sync.values["from"])
    if not directory.is_dir():
        found = f"there is no directory {shortened(str(directory))}"
        mistakes.add(sync.given["from"], f"{found}; a relative path begins at the directory of the cluster file")
    elif directory in (Path.home(), Path("/")):
        what = "the root directory" if directory == Path("/") else "your home directory"
        mistakes.add(sync.given["from"], f"{directory} is {what}; name the directory of one project")


def project_directory(file: Path, given: str) -> Path:
    """The absolute path that a `sync` of a cluster file means."""
    return Path(os.path.normpath(Path(working_directory(), file.parent, Path(given).expanduser())))


def _check_names(hosts: Sequence[Entries], mistakes: Mistakes) -> None:
    first: dict[str, Node] = {}
    for host in hosts:
        if (name := host.values.get("host")) is None:
            continue
        if name in first:
            place = f"line {first[name].line}, column {first[name].column}"
            advice = "list each host once, with all of its tasks"
            mistakes.add(host.given["host"], f"host {name} a second time, first at {place}; {advice}")
        first.setdefault(name, host.given["host"])


def _check_addresses(hosts: Sequence[Entries], mistakes: Mistakes) -> None:
    for host in hosts:
        address = host.values.get("address", "")
        if is_loopback(address):
            found = f"address {address} in a cluster of {len(hosts)} hosts, each of which would dial itself"
            advice = "write the address at which the other hosts reach this one, or leave it out: it is found then"
            mistakes.add(host.given["address"], f"{found}; {advice}")


def _check_host(host: Entries, counts: Mapping[str, int], mistakes: Mistakes) -> None:
    total = sum(counts.values())
    if total == 0:
        mistakes.add(_work_node(host), "the host runs no task; give it 1 or more, or leave the host out")
    ports = host.values.get("ports")
    if ports is not None and (size := ports[1] - ports[0] + 1) < total:
        mistakes.add(host.given["ports"], f"ports has {size} for the {total} tasks of the host; each task needs one")
    if host.values.get("host") == LOCALHOST:
        _check_localhost(host, mistakes)
    if "gpus" in host.values:
        _check_gpus(host, sum(count for kind, count in counts.items() if kind != "ps"), mistakes)


def _check_localhost(host: Entries, mistakes: Mistakes) -> None:
    for key, instead in (("run_dir", "the option --run-dir names it here"), ("ssh", "no ssh is used here")):
        if key in host.given and host.node.entries.get(key) is not None:
            mistakes.add(host.given[key], f"{key} of localhost; {instead}: leave it out")


def _check_gpus(host: Entries, computing: int, mistakes: Mistakes) -> None:
    gpus: tuple[int, ...] = host.values["gpus"]
    if gpus and computing and len(gpus) % computing:
        found = f"gpus has {len(gpus)} for the {computing} tasks of the host that compute"
        mistakes.add(host.given["gpus"], f"{found}; each needs the same number: change `gpus` or the number of tasks")
    if "CUDA_VISIBLE_DEVICES" in host.values.get("env", {}):
        mistakes.add(host.given["gpus"], "gpus and CUDA_VISIBLE_DEVICES in `env`; gpus sets that variable: keep one")


def _check_gang(hosts: Sequence[tuple[Entries, Mapping[str, int]]], mistakes: Mistakes) -> None:
    total: Counter[str] = Counter()
    tasks = 0
    for host, counts in hosts:
        tasks += sum(counts.values())
        if tasks > MAX_TASKS:
            mistakes.add(_work_node(host), f"{tasks} tasks so far; a cluster has at most {MAX_TASKS}")
            return
        for kind in ONE_OF_A_KIND:
            before, total[kind] = total[kind], total[kind] + counts.get(kind, 0)
            if total[kind] > 1 and total[kind] > before:
                node = _count_node(host, kind)
                mistakes.add(node, f"{total[kind]} tasks of type {kind} so far; TensorFlow allows one in a cluster")
        total["worker"] += counts.get("worker", 0)
    if tasks and not total["chief"] + total["worker"]:
        first = hosts[0][0]
        mistakes.add(_work_node(first), "the cluster has no chief and no worker; it needs at least one of them")


def _work_node(host: Entries) -> Node:
    """Where the file says what a host runs."""
    return next((host.given[key] for key in WORK_KEYS if key in host.given), host.node)


def _count_node(host: Entries, kind: str) -> Node:
    tasks: Any = host.values["tasks"]
    node: Node = tasks.given[kind]
    return node
