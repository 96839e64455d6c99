"""Clusters without a file: `--workers N`, and `--hosts a:2,b:2` as horovodrun and mpirun write it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.defaults import LOCALHOST
from launcher.cluster.redaction.commands import redacted_line
from launcher.cluster.spec import number_tasks
from launcher.errors import UsageError

MAX_WORKERS = 1000
ALLOWED = (
    "allowed is HOST or HOST:WORKERS, several with commas and no spaces between them, such as localhost:2,me@gpu-b:4; "
    "an IPv6 address stands in brackets: [fd00::2]:4"
)
_ENTRY = (
    r"(?!-)(?P<user>[^@:/\s\[\]]+@)?"
    r"(?:\[(?P<ipv6>[\w.]*:[\w.:%-]*)\]|(?P<name>[^@:/\s\[\]]+))"
    r"(?::(?P<workers>[0-9]{1,9}))?"
)


def local_cluster(workers: int) -> Cluster:
    """What `--workers N` means: N workers on this machine, everything else as in a file that says no more.

    Raises:
        UsageError: there would be no worker.
    """
    if workers < 1:
        raise UsageError(f"--workers {workers}: a run needs at least 1 worker")
    return _cluster({LOCALHOST: workers})


def listed_cluster(text: str) -> Cluster:
    """What `--hosts a:2,b:2` means: so many workers on each host, one where no number is given.

    Raises:
        UsageError: the text is no such list.
    """
    workers: dict[str, int] = {}
    for entry in text.split(","):
        host, count = _host_and_workers(entry)
        if host in workers:
            raise _wrong(entry, f"host {host} a second time; name each host once, with all of its workers")
        workers[host] = count
    return _cluster(workers)


def _host_and_workers(entry: str) -> tuple[str, int]:
    found = re.fullmatch(_ENTRY, entry) if entry.isprintable() else None
    if not entry:
        raise UsageError(f"--hosts: an empty place in the list; {ALLOWED}")
    if found is None:
        raise _wrong(entry, f"this is no host with a number of workers; {ALLOWED}")
    count = int(found["workers"] or 1)
    if not 1 <= count <= MAX_WORKERS:
        raise _wrong(entry, f"{count} workers; allowed is a whole number, 1 to {MAX_WORKERS}")
    return (found["user"] or "") + (found["ipv6"] or found["name"]), count


def _wrong(entry: str, reason: str) -> UsageError:
    return UsageError(f"--hosts {redacted_line(entry)}: {reason}")


def _cluster(workers: Mapping[str, int]) -> Cluster:
    numbered = number_tasks({"worker": count} for count in workers.values())
    hosts = tuple(Host(name, tasks) for name, tasks in zip(workers, numbered, strict=True))
    return Cluster("local" if list(workers) == [LOCALHOST] else "hosts", hosts)
