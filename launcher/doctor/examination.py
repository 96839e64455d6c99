"""All that was found out about a cluster, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.file.source import Places
from launcher.cluster.plan import TaskPlan
from launcher.cluster.spec import Task
from launcher.hosts.facts import HostFacts
from launcher.hosts.ssh_complaint import Complaint
from launcher.on_host.probe.answers import Answers, Speed


class Dial(NamedTuple):
    """One host's attempt to reach a worker's port on another, at one address."""

    dialler: str
    host: str
    address: str
    task: Task
    port: int


@dataclass(frozen=True, slots=True)
class Gradients:
    """What each worker shares with the others in a step: how many bytes, and how we know."""

    size: float
    source: str


@dataclass(frozen=True, slots=True)
class HostExamination:
    """What was found out about one host."""

    host: Host
    complaint: Complaint | None = None
    """Why there is no connection to it, or none any more."""
    facts: HostFacts | None = None
    ports: Mapping[Task, int] = field(default_factory=dict)
    no_ports: str = ""
    """Why it has no ports for its workers."""
    plan: TaskPlan | None = None
    """Of its first worker; None without connection or tasks."""
    runs_python: bool = True
    """The command is a Python program."""
    refusal: str = ""
    """Why the Python of its workers, or their working directory, cannot be used."""
    answers: Answers = field(default_factory=Answers)
    silence: str = ""
    """Why answers are missing."""

    @property
    def name(self) -> str:
        return self.host.name


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found out about all hosts, and between them."""

    cluster: Cluster
    hosts: tuple[HostExamination, ...]
    gradients: Gradients
    imports: bool = False
    """TensorFlow was to be imported as well."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Where each host would be dialled in a run."""
    dialled: Mapping[Dial, str] = field(default_factory=dict)
    """Why it failed; empty if it did not."""
    speeds: Mapping[tuple[str, str], Speed] = field(default_factory=dict)
    """By (sender, receiver)."""

    @property
    def reached(self) -> tuple[HostExamination, ...]:
        """The hosts whose agent has answered."""
        return tuple(each for each in self.hosts if each.facts is not None)

    @property
    def unreached(self) -> dict[str, dict[Dial, str]]:
        """The hosts that some other cannot reach at their address, with the dials that failed and why."""
        found: dict[str, dict[Dial, str]] = {}
        for dial, why in self.dialled.items():
            if why and dial.address == self.addresses.get(dial.host):
                found.setdefault(dial.host, {})[dial] = why
        return found

    @property
    def places(self) -> Places:
        """Where each key stands in the cluster file."""
        return self.cluster.source.places if self.cluster.source else Places()

    @property
    def workers(self) -> int:
        """How many share gradients, the chief among them."""
        return sum(task.type in ("chief", "worker") for host in self.cluster.hosts for task in host.tasks)
