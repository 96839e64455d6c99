"""All that was found out about a cluster, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.plan import TaskPlan
from launcher.cluster.spec import Task
from launcher.doctor.answers import Answers
from launcher.hosts.facts import HostFacts
from launcher.hosts.ssh_complaint import Complaint


class Dial(NamedTuple):
    """One host's try to reach a worker's port of another one, at one address."""

    dialler: str
    host: str
    address: str
    task: Task
    port: int


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one host sends to another."""

    rate: float = 0.0
    """Bytes a second."""
    round_trip: float = 0.0
    """Seconds, without load."""
    retransmitted: int = 0
    """Packets."""
    reason: str = ""
    """Why it could not be measured."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """What each worker has to share with the others in a step."""

    size: float
    """Bytes."""
    source: str
    """Where the size is from."""


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
    no_gate: str = ""
    """Why it cannot keep strangers off them."""
    plan: TaskPlan | None = None
    """Of its first worker."""
    runs_python: bool = True
    """The command is a Python program."""
    refusal: str = ""
    """Why the Python of its workers, or their working directory, cannot be used."""
    answers: Answers = field(default_factory=Answers)
    silence: str = ""
    """How it came that the answers are not complete."""

    @property
    def name(self) -> str:
        """As in the cluster file."""
        return self.host.name


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found out about all hosts, and between them."""

    cluster: Cluster
    hosts: tuple[HostExamination, ...]
    gradients: Gradients
    imports: bool = False
    """TensorFlow was to be imported, too."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Where each host is dialled."""
    dialled: Mapping[Dial, str] = field(default_factory=dict)
    """Empty, or why not."""
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each host the others whose files it sees where it would write its own."""
    speeds: Mapping[tuple[str, str], Speed] = field(default_factory=dict)
    """By (sender, receiver)."""

    @property
    def reached(self) -> tuple[HostExamination, ...]:
        """The hosts whose agent has answered."""
        return tuple(each for each in self.hosts if each.facts is not None)
