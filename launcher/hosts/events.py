"""What happens during a run, as frozen values. Connections make them, the main thread consumes them.

They are named tuples because defining as many dataclasses would take a tenth of the time until a worker's first
instruction.
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
"""Strangers that are reported one by one; of more, the agent reports only each doubling of their number."""


class HostReady(NamedTuple):
    """An agent has started and reported its host's facts."""

    host: str
    facts: Ready


class HostLost(NamedTuple):
    """The connection to an agent ended, or was never made."""

    host: str
    reason: str
    remedy: str | None = None

    @property
    def complaint(self) -> str:
        """For the user: what happened, and below it what to do about it."""
        return f"{self.host}: {self.reason}" + (f"\n  {self.remedy}" if self.remedy else "")


class HostAwaited(NamedTuple):
    """A host behind ssh has not answered yet. `destination`: where ssh connects to, unless the host's name says it."""

    host: str
    destination: str

    @property
    def line(self) -> str:
        """The event as a line for the user."""
        where = f" ({self.destination})" if self.destination else ""
        return f"waiting for {self.host}{where}"


class HostSilent(NamedTuple):
    """A connected host has been silent for a good part of its lease (both in seconds)."""

    host: str
    seconds: float
    lease: float

    @property
    def line(self) -> str:
        """The event as a line for the user."""
        given_up = f"it is given up after {self.lease:g} s (timeouts.lease)"
        return f"{self.host} has not answered for {round(self.seconds, 1):g} s; {given_up}"


class HostAnswersAgain(NamedTuple):
    """A host that was reported silent has answered."""

    host: str

    @property
    def line(self) -> str:
        """The event as a line for the user."""
        return f"{self.host} answers again"


class PortsReserved(NamedTuple):
    """A host's answer to a reservation: one port for each task."""

    host: str
    ports: Mapping[Task, int]


class ReservationFailed(NamedTuple):
    """A host has too few free ports in the range that it was given."""

    host: str
    reason: str


class PutFailed(NamedTuple):
    """A host could not write the files that the launcher sent for the workers."""

    host: str
    reason: str


class Dialled(NamedTuple):
    """A host's answer to a request to dial others: for each target's id, empty or why it was not reached."""

    host: str
    results: Mapping[str, str]


class Answer(NamedTuple):
    """An agent's (or rsync's) answer about files, the project or the host, for whoever asked. Not recorded."""

    host: str
    message: Any
    """A message of `launcher.on_host.agent.messages`, or of another agent program."""


class TaskStarted(NamedTuple):
    """A worker's process runs."""

    host: str
    task: Task
    pid: int


class TaskStartFailed(NamedTuple):
    """A worker's process could not be started (no such program, no such directory...)."""

    host: str
    task: Task
    reason: str


class TaskListening(NamedTuple):
    """A worker's TensorFlow server listens at its port for the first time."""

    host: str
    task: Task


class TaskWaitsElsewhere(NamedTuple):
    """A worker with TensorFlow has been idle for long, but does not listen at its own address."""

    host: str
    task: Task
    own_port: int
    ports: tuple[int, ...]
    """Where it listens instead."""
    connected: tuple[str, ...]
    """Addresses of peers that it is connected to..."""
    dialled: tuple[str, ...]
    """...and that it tries to connect to."""


class PortShared(NamedTuple):
    """TensorFlow servers of several processes of the run share one port: each connection goes to any of them."""

    host: str
    port: int
    processes: tuple[tuple[Task, int], ...]
    """Of each process, the task that started it, and its pid."""

    @property
    def task(self) -> Task:
        """The first of them."""
        return self.processes[0][0]


class StrangerRefused(NamedTuple):
    """A connection to a task's port from an address that is no host of the run was refused."""

    host: str
    task: Task
    address: str
    number: int
    """How many such addresses this host has refused so far. Of many, not each is reported."""

    @property
    def line(self) -> str:
        """The event as a line for the user."""
        others = f", as were {self.number - 1} other addresses" if self.number > ONE_BY_ONE else ""
        return (
            f"{self.task} on {self.host}: a connection from {self.address} was refused{others}: no host of this run "
            "was seen to connect from there; `network: {open: true}` in the cluster file admits everybody"
        )


class GateFailed(NamedTuple):
    """A host cannot close its tasks' ports to strangers."""

    host: str
    reason: str

    @property
    def line(self) -> str:
        """The event as a line for the user."""
        return (
            f"{self.host}: connections from elsewhere cannot be refused here ({self.reason}), and TensorFlow's server "
            "asks nobody for a password: let a firewall keep others off the tasks' ports"
        )


class TaskResting(NamedTuple):
    """After a stop signal: a worker with TensorFlow is idle, waiting for its peers; or is no longer."""

    host: str
    task: Task
    resting: bool


class TaskExited(NamedTuple):
    """A worker's process has ended. `tail` is the end of its log as it stood then."""

    host: str
    task: Task
    exit_code: int | None
    """None if `signal` ended it."""
    signal: int | None
    out_of_memory: bool
    tail: bytes
    log_disk_full: bool = False
    """The disk with its log is full: what it wrote last may be missing."""

    @property
    def succeeded(self) -> bool:
        """Whether it exited with 0."""
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
    """A worker reported progress: `line` is the newest line of its `LAUNCH_PROGRESS` file, one JSON object."""

    host: str
    task: Task
    line: bytes

    @property
    def step(self) -> int | None:
        """The training step; None if the line has none: programs may write anything."""
        try:
            step = json.loads(self.line)["step"]
        except (ValueError, TypeError, LookupError, RecursionError):
            return None
        return step if isinstance(step, int) else None


class EvaluatorDone(NamedTuple):
    """An evaluator has evaluated the last checkpoint: see `launcher.on_host.agent.evaluator`."""

    host: str
    task: Task


class HostEmpty(NamedTuple):
    """Nothing that this run has started is left on the host: no worker, no descendant of one."""

    host: str


class ProcessesSurvived(NamedTuple):
    """Processes that survived SIGKILL: they belong to another user, or hang in the kernel."""

    host: str
    pids: tuple[int, ...]


class TimedOut(NamedTuple):
    """A task did not start in time. The supervisor makes this event."""

    host: str
    task: Task
    awaited: Awaited
    seconds: float
    """`timeouts.start`."""


class Stalled(NamedTuple):
    """No worker reported a step for `seconds` (`timeouts.stall`). The supervisor makes this event."""

    seconds: float
    last_step: str
    """As `step 812 (worker 0)`; empty if the reports had no number."""


class GatheringEnded(NamedTuple):
    """All that could be gathered from the hosts is here, or an errand of `launcher.gathering` has ended."""


class StopRequested(NamedTuple):
    """Somebody has asked a host's agent to stop the run (`launch leftovers --stop`)."""

    host: str


class Interrupted(NamedTuple):
    """A signal told the launcher to stop: SIGINT, SIGTERM or SIGHUP."""

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


def as_record(event: Event) -> dict[str, Any]:
    """The event as a JSON object: its type in snake case, tasks as slugs; without bytes of logs and without secrets."""
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
