"""What `launch doctor` finds: each finding with its hosts, why it matters and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeVar

Value = TypeVar("Value", bound=Hashable)


class Severity(IntEnum):
    """How bad a finding is. The report begins with the least."""

    NOTE = 1
    """Good to know."""
    WARNING = 2
    """A run may start, but be slow or unsafe, or fail later."""
    ERROR = 3
    """A run would not start, would hang, or compute something wrong."""


NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know. Checks define one of each kind, and `on` says where it was found."""

    severity: Severity
    check: str
    """A word that names the kind of finding, for machines."""
    key: str | None = None
    """The key of the cluster file that may have to change."""
    names_hosts: bool = False
    """`what` names the hosts itself."""
    why: str = ""
    """Why it matters."""
    remedy: str = ""
    """What to do, if anything."""
    hosts: tuple[str, ...] = ()
    what: str = ""
    """What was found."""

    def because(self, why: str, remedy: str = "") -> Finding:
        """The same finding, with why it matters and what to do."""
        return replace(self, why=why, remedy=remedy)

    def on(self, hosts: str | tuple[str, ...], what: str, **changes: Any) -> Finding:
        """The same kind of finding, with what was found on these hosts and what else differs there."""
        return replace(self, hosts=(hosts,) if isinstance(hosts, str) else hosts, what=what, **changes)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The same finding on several hosts as one."""
    found: dict[Finding, list[str]] = {}
    for each in findings:
        hosts = found.setdefault(replace(each, hosts=()), [])
        hosts += [host for host in each.hosts if host not in hosts]
    return [replace(each, hosts=tuple(hosts)) for each, hosts in found.items()]


def odd_ones(values: Mapping[str, Value]) -> tuple[Value | None, dict[str, Value]]:
    """The most frequent value (of several, the first), and the hosts that have another one."""
    if not values:
        return None, {}
    usual = Counter(values.values()).most_common(1)[0][0]
    return usual, {host: value for host, value in values.items() if value != usual}
