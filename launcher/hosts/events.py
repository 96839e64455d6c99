"""What happens during a run, as frozen values: the agents' readers make them, the supervisor consumes them.

Named tuples: making so many dataclasses would take a tenth of the time until a worker's first instruction.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from launcher.cluster.redaction import in_values
from launcher.cluster.spec import Task
from launcher.on_host.agent.fields import Message
from launcher.on_host.agent.messages import Ready

Awaited = Literal["process", "server"]
"""The start of a task's process, or of its TensorFlow server."""
ONE_BY_ONE = 5
"""Strangers that are told of one by one; the agent tells of more only each time that they have doubled."""


class HostReady(NamedTuple):
    """An agent has started and told what its host is."""

    host: str
    facts: Ready


class HostLost(NamedTuple):
    """The connection to an agent ended, or never came about."""

    host: str
    reason: str
    remedy: str | None = None

    @property
    def complaint(self) -> str:
        """For the user: what happened, and below it what to do about it."""
        return f"{self.host}: {self.reason}" + (f"\n  {self.remedy}" if self.remedy else "")


class HostAwaited(NamedTuple):
    """A host behind ssh has not answered a first time yet; ssh goes to `destination`, which may be empty."""

    host: str
    destination: str

    @property
    def line(self) -> str:
        """For the user."""
        where = f" ({self.destination})" if self.destination else ""
        return f"waiting for {self.host}{where}"


class HostSilent(NamedTuple):
    """A host that had answered has been silent for a good part of its lease (both in seconds)."""

    host: str
    seconds: float
    lease: float

    @property
    def line(self) -> str:
        """For the user."""
        given_up = f"it is given up after {self.lease:g} s (timeouts.lease)"
        return f"{self.host} has not answered for {round(self.seconds, 1):g} s; {given_up}"


class HostAnswersAgain(NamedTuple):
    """It is silent no longer."""

    host: str

    @property
    def line(self) -> str:
        """For the user."""
        return f"{self.host} answers again"


class PortsReserved(NamedTuple):
    """A host's answer to a reservation: one port a task."""

    host: str
    ports: Mapping[Task, int]


class ReservationFailed(NamedTuple):
    """A host has no free port where it was asked for one."""

    host: str
    reason: str


class PutFailed(NamedTuple):
    """A host could not write what the launcher brought along."""

    host: str
    reason: str


class Dialled(NamedTuple):
    """A host's answer to a request to reach others: by id, empty or why not."""

    host: str
    results: Mapping[str, str]


class Answer(NamedTuple):
    """What an agent (or rsync) says to those who asked about files, the project or the host. It is not written down."""

    host: str
    message: Any
    """One of `launcher.on_host.agent.messages`, or of another program's."""


class TaskStarted(NamedTuple):
    """A worker's process runs."""

    host: str
    task: Task
    pid: int


class TaskStartFailed(NamedTuple):
    """A worker's process could not be created (no such program, no such directory...)."""

    host: str
    task: Task
    reason: str


class TaskListening(NamedTuple):
    """A worker's TensorFlow server listens at its port for the first time."""

    host: str
    task: Task


class TaskWaitsElsewhere(NamedTuple):
    """A worker that has TensorFlow loaded does not listen at its own address, and has been at rest for long."""

    host: str
    task: Task
    own_port: int
    ports: tuple[int, ...]
    """Where it listens instead."""
    connected: tuple[str, ...]
    """Addresses of others with which it has a connection..."""
    dialled: tuple[str, ...]
    """...and which it tries to reach."""


class PortShared(NamedTuple):
    """TensorFlow servers of several processes of the run listen at one port: each connection goes to any of them."""

    host: str
    port: int
    processes: tuple[tuple[Task, int], ...]
    """The task that started it, and its pid."""


class StrangerRefused(NamedTuple):
    """Somebody who is no host of the run has tried to connect to a task's port."""

    host: str
    task: Task
    address: str
    number: int
    """How many addresses of such people this host has seen by now. Of many, not each is told."""

    @property
    def line(self) -> str:
        """For the user."""
        others = f", as were {self.number - 1} other addresses" if self.number > ONE_BY_ONE else ""
        return (
            f"{self.task} on {self.host}: a connection from {self.address} was refused{others}: no host of this run "
            "was seen to connect from there; `network: {open: true}` in the cluster file admits everybody"
        )


class GateFailed(NamedTuple):
    """A host cannot keep others off the ports of its tasks."""

    host: str
    reason: str

    @property
    def line(self) -> str:
        """For the user."""
        return (
            f"{self.host}: connections from elsewhere cannot be refused here ({self.reason}), and TensorFlow's server "
            "asks nobody for a password: let a firewall keep others off the tasks' ports"
        )


class TaskResting(NamedTuple):
    """After a stop signal: a worker that has TensorFlow loaded only waits, or no longer does."""

    host: str
    task: Task
    resting: bool


class TaskExited(NamedTuple):
    """A worker's process has ended. `tail` is the end of its log as it stood then."""

    host: str
    task: Task
    exit_code: int | None
    """None: ended by `signal`."""
    signal: int | None
    out_of_memory: bool
    tail: bytes
    log_disk_full: bool = False
    """The disk of its log has no room left: what it wrote last may be missing."""

    @property
    def succeeded(self) -> bool:
        """The process said itself that all went well."""
        return self.exit_code == 0


class LogChunk(NamedTuple):
    """The next raw bytes of a worker's log."""

    host: str
    task: Task
    offset: int
    data: bytes


class LogEnded(NamedTuple):
    """A worker's process has ended and all of its log has been shipped."""

    host: str
    task: Task


class ProgressMade(NamedTuple):
    """A worker reported a training step: `line` is the newest of its `LAUNCH_PROGRESS` file, one JSON object."""

    host: str
    task: Task
    line: bytes


class EvaluatorDone(NamedTuple):
    """An evaluator has seen the last checkpoint: see `launcher.on_host.agent.evaluator`."""

    host: str
    task: Task


class HostEmpty(NamedTuple):
    """Nothing that this run started is left on the host: no worker, no descendant of one."""

    host: str


class ProcessesSurvived(NamedTuple):
    """SIGKILL did not end these: they belong to another user, or hang in the kernel."""

    host: str
    pids: tuple[int, ...]


class TimedOut(NamedTuple):
    """A task was waited for in vain. Made by the supervisor itself."""

    host: str
    task: Task
    awaited: Awaited
    seconds: float
    """`timeouts.start`."""


class Stalled(NamedTuple):
    """No worker reported a step for `seconds` (`timeouts.stall`). Made by the supervisor itself."""

    seconds: float
    last_step: str
    """As `step 812 (worker 0)`; empty: the reports had no number."""


class GatheringEnded(NamedTuple):
    """All that could be gathered from the hosts is here, or an errand of `launcher.gathering` is over."""


class StopRequested(NamedTuple):
    """Somebody on a host has asked its agent for the end of the run (`launch leftovers --stop`)."""

    host: str


class Interrupted(NamedTuple):
    """The launcher was asked to stop: SIGINT, SIGTERM or SIGHUP."""

    signal: int


Event = (
    HostReady
    | HostLost
    | HostAwaited
    | HostSilent
    | HostAnswersAgain
    | PortsReserved
    | ReservationFailed
    | PutFailed
    | Dialled
    | Answer
    | TaskStarted
    | TaskStartFailed
    | TaskListening
    | TaskResting
    | StrangerRefused
    | GateFailed
    | TaskWaitsElsewhere
    | PortShared
    | TaskExited
    | LogChunk
    | LogEnded
    | ProgressMade
    | EvaluatorDone
    | HostEmpty
    | ProcessesSurvived
    | TimedOut
    | Stalled
    | GatheringEnded
    | StopRequested
    | Interrupted
)


def reported_step(line: bytes) -> int | None:
    """The training step in a line of a `LAUNCH_PROGRESS` file; None: a program may report what it likes."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return step if isinstance(step, int) else None


def as_record(event: Event) -> dict[str, Any]:
    """The event as a JSON object: its type in snake case, tasks as slugs; logs' bytes and secrets are left out."""
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    values = event._asdict()
    if isinstance(event, ProgressMade):
        values["line"] = event.line.decode("utf-8", "replace")
    told = {name: _plain(value) for name, value in values.items() if not isinstance(value, bytes)}
    return {"type": kind, **in_values(told)}


def _plain(value: Any) -> Any:
    if isinstance(value, Task):
        return value.slug
    if isinstance(value, Message):
        value = vars(value)
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    # JSON knows no NaN, and a loss that became NaN is worth keeping.
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
