"""What `launch doctor` finds: each thing with its host, its reason and its remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum


class Severity(IntEnum):
    """How bad it is; in the order in which findings are told."""

    NOTE = 1
    """Good to know."""
    WARNING = 2
    """A run may start, and be slow, unsafe or fail later."""
    ERROR = 3
    """A run would not start, would hang, or compute something wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a person should know."""

    severity: Severity
    check: str
    """A word that names the kind of finding, for machines."""
    hosts: tuple[str, ...]
    what: str
    """What was found, and where on these hosts."""
    why: str
    """Why it matters."""
    remedy: str
    """What to do; empty: nothing."""
    key: str | None = None
    """The key of the cluster file that may have to change."""
    names_hosts: bool = False
    """`what` says itself which hosts it is about, and how."""


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The same finding on several hosts is one."""
    found: dict[Finding, list[str]] = {}
    for each in findings:
        hosts = found.setdefault(replace(each, hosts=()), [])
        hosts += [host for host in each.hosts if host not in hosts]
    return [replace(each, hosts=tuple(hosts)) for each, hosts in found.items()]
