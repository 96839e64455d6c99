"""The cluster file: YAML in, `Cluster` out; every mistake named with file:line:column."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.cluster.cluster import Cluster, Host, PortRange, RestartLimits, Ssh, Sync, Timeouts
from launcher.cluster.defaults import LOCALHOST, PROJECTS
from launcher.cluster.file.checks import (
    check_hosts,
    check_per_task,
    check_sync,
    merged_hosts,
    project_directory,
    task_counts,
)
from launcher.cluster.file.file_text import Mistakes, read_text
from launcher.cluster.file.keys import HOST_EXAMPLE, ROOT
from launcher.cluster.file.source import Places, Source
from launcher.cluster.file.value_structures import Entries
from launcher.cluster.file.yaml_nodes import Node, parse
from launcher.cluster.redaction import redacted_text
from launcher.cluster.spec import Task, number_tasks

ROOT_VALUES = ("name", "command", "collect", "collect_interval")
"""The keys of the file's top level that hold one value."""


def read_cluster_file(path: Path, copy: Path | None = None) -> Cluster:
    """Read and check a cluster file; nothing else is touched.

    Args:
        path: the file. Its name, and the paths that it holds, are those of the run.
        copy: a copy elsewhere, which is read in its place.

    Raises:
        ClusterFileError: with every mistake of the file, each with its line and column.
    """
    mistakes = Mistakes(str(copy or path))
    text = read_text(copy or path, mistakes)
    root = parse(text, mistakes)
    if root is None:
        mistakes.fail(1, 1, f"the file is empty; write at least hosts: [{HOST_EXAMPLE}]")
    file, hosts = _checked(root, path, mistakes)
    places = Places(copy or path, {host.values["host"]: host for host in hosts})
    return _cluster(file, hosts, path)._replace(source=Source(text, root, places))


def _checked(root: Node, path: Path, mistakes: Mistakes) -> tuple[Entries, tuple[Entries, ...]]:
    """The top level, and the hosts with `defaults` merged in; all of it is correct."""
    file = ROOT.value_of(root, "the cluster file", mistakes)
    hosts = merged_hosts(file, mistakes) if isinstance(file, Entries) else ()
    check_hosts(hosts, mistakes)
    if isinstance(file, Entries):
        check_sync(file, path, mistakes)
        check_per_task(file, hosts, mistakes)
    mistakes.check()
    return file, hosts


def _cluster(file: Entries, hosts: Sequence[Entries], path: Path) -> Cluster:
    numbered = number_tasks(task_counts(host) or {} for host in hosts)
    given: dict[str, Any] = {key: file.values[key] for key in ROOT_VALUES if key in file.values}
    if "name" in given:
        given["name"] = redacted_text(given["name"])
    sync = _sync(file, path)
    return Cluster(
        hosts=tuple(_host(host, tasks, file, sync) for host, tasks in zip(hosts, numbered, strict=True)),
        sync=sync,
        restart=RestartLimits(**_section(file, "restart")),
        timeouts=Timeouts(**_section(file, "timeouts")),
        per_task=_section(file, "per_task"),
        open_network=_section(file, "network").get("open", False),
        **{"name": path.stem, **given},
    )


def _sync(file: Entries, path: Path) -> Sync | None:
    values = _section(file, "sync")
    if not values:
        return None
    return Sync(project_directory(path, values["from"]), values.get("exclude", ()), values.get("gitignore", True))


def _host(host: Entries, tasks: tuple[Task, ...], file: Entries, sync: Sync | None) -> Host:
    values = {**host.values}
    if sync is not None:
        values.setdefault("workdir", _place_of_project(sync.directory, values["host"]))
    plain = ("gpus", "python", "workdir", "env", "hold_ports")
    given = {key: values[key] for key in plain if key in values}
    ports = PortRange(*values["ports"]) if "ports" in values else None
    address = values["address"].strip("[]") if "address" in values else None
    ssh, runs_dir = _ssh(_section(host, "ssh"), file), values.get("run_dir")
    return Host(values["host"], tasks, address, ports=ports, runs_dir=runs_dir, ssh=ssh, **given)


def _place_of_project(directory: Path, host: str) -> str:
    """Where it is on a host that names no `workdir`: never at that of another project of the same name."""
    if host == LOCALHOST:
        return str(directory)
    import hashlib  # with it comes OpenSSL: 3 ms

    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    return f"{PROJECTS}/{directory.name}-{digest}"


def _ssh(own: Mapping[str, Any], file: Entries) -> Ssh:
    shared = _section(file, "ssh")
    options = (*own.get("options", ()), *shared.get("options", ()))
    return Ssh(**{**shared, **own, "options": options})


def _section(file: Entries, key: str) -> Mapping[str, Any]:
    return file.values[key].values if key in file.values else {}
