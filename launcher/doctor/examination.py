"""All that was found out about a cluster, as one value: what each host told of itself, what several told together."""

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
from launcher.on_host.probe.answers import (
    DiskRoom,
    Gpus,
    NetworkCard,
    ProgramFound,
    PythonFound,
    Speed,
    Surroundings,
    TensorFlowFound,
)


@dataclass(frozen=True, slots=True)
class Answers:
    """All that one host told; None: it did not come to that."""

    python: PythonFound | None = None
    packages: Mapping[str, str] | None = None
    """Versions by name."""
    program: ProgramFound | None = None
    surroundings: Surroundings | None = None
    gate: str | None = None
    """Why its kernel cannot keep strangers off the workers' ports; empty: it can."""
    network_cards: Mapping[str, NetworkCard] | None = None
    """By address."""
    gpus: Gpus | None = None
    room: DiskRoom | None = None
    unsafe: tuple[str, ...] | None = None
    """Why others could put something else in the place of what a run has there, and what to do, in words of the run."""
    unwritable: str | None = None
    """Why nothing can be written where runs go; empty: it can."""
    seen: tuple[str, ...] | None = None
    """The other hosts whose files it sees where it would write its own."""
    tensorflow: TensorFlowFound | None = None
    measured: Speed | None = None
    """Of the last link that it was asked for."""
    trouble: tuple[tuple[str, str], ...] = ()
    """What could not be found out, and why."""


class Dial(NamedTuple):
    """One host's try to reach a worker's port of another one, at one address."""

    dialler: str
    host: str
    address: str
    task: Task
    port: int


@dataclass(frozen=True, slots=True)
class Gradients:
    """What each worker has to share with the others in a step: how many bytes, and how that is known."""

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
    speeds: Mapping[tuple[str, str], Speed] = field(default_factory=dict)
    """By (sender, receiver)."""

    @property
    def reached(self) -> tuple[HostExamination, ...]:
        """The hosts whose agent has answered."""
        return tuple(each for each in self.hosts if each.facts is not None)

    @property
    def places(self) -> Places:
        """Where things stand in the cluster file."""
        return self.cluster.source.places if self.cluster.source else Places()

    @property
    def workers(self) -> int:
        """How many share gradients: the chief does, too."""
        return sum(task.type in ("chief", "worker") for host in self.cluster.hosts for task in host.tasks)


def failures(dialled: Mapping[Dial, str]) -> dict[tuple[str, str], dict[Dial, str]]:
    """Who did not reach which port, and why, by (host, address) of the one that was dialled."""
    found: dict[tuple[str, str], dict[Dial, str]] = {}
    for dial, why in dialled.items():
        if why:
            found.setdefault((dial.host, dial.address), {})[dial] = why
    return found
