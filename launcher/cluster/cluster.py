"""The values that describe a cluster: its hosts, and how a run on them is started, watched and stopped. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Never

from launcher.cluster.defaults import CONNECT_TIMEOUT, DEFAULT_COMMAND, LEASE, LOCALHOST
from launcher.cluster.spec import Task

if TYPE_CHECKING:
    from launcher.cluster.file.source import Source

NOTHING: Mapping[str, Never] = MappingProxyType({})


class PortRange(NamedTuple):
    """The ports that workers may listen on, both ends included."""

    first: int
    last: int


class Ssh(NamedTuple):
    """How a host is reached, beside the user's own ssh configuration."""

    config: str | None = None
    connect_timeout: float = CONNECT_TIMEOUT
    """Seconds."""
    options: tuple[str, ...] = ()
    """A host's own come first: ssh takes the first of two that contradict each other."""


@dataclass(frozen=True, slots=True)
class Host:
    """One machine of the cluster and what runs there, with the file's `defaults` already merged in."""

    name: str
    """`localhost`, or an ssh destination: alias, host, user@host."""
    tasks: tuple[Task, ...]
    address: str | None = None
    """What the other workers dial; None: found out."""
    gpus: tuple[int, ...] | None = None
    """Shared out among this host's workers; None: all are visible to each; (): none."""
    python: str | None = None
    """What a `python` in front of the command means here; None: the launcher's own on localhost, else `python3`."""
    workdir: str | None = None
    """None: where `launch` was called on localhost, else the home directory."""
    env: Mapping[str, str] = field(default_factory=lambda: NOTHING, repr=False)
    ports: PortRange | None = None
    hold_ports: bool = True
    runs_dir: str | None = None
    """`run_dir` in the file: above the directories of runs, where ssh reaches the host; None: `REMOTE_RUNS_DIR`."""
    ssh: Ssh = field(default_factory=Ssh)

    @property
    def is_local(self) -> bool:
        """This machine, without ssh."""
        return self.name == LOCALHOST


class RestartLimits(NamedTuple):
    """How often the whole gang is started again, and how long to wait before the first restart (it doubles)."""

    max_restarts: int = 0
    backoff: float = 1.0
    """Seconds."""


class Timeouts(NamedTuple):
    """All in seconds."""

    start: float = 120.0
    """From the first contact with a host until every worker's process has started."""
    stall: float | None = None
    """No report of progress from any worker for this long ends the attempt; None: never."""
    grace: float = 30.0
    """Between the first signal and SIGKILL while the gang is whole."""
    failure_grace: float = 2.0
    """The same once a member of the gang is gone: nobody can save any more."""
    evaluator: float = 60.0
    """What an evaluator gets to see the last checkpoint once the training is done; 0: nothing."""
    lease: float = LEASE
    """An agent that does not hear from the launcher for this long stops its workers."""


class Sync(NamedTuple):
    """The project directory that is sent into the `workdir` of each host that is reached by ssh."""

    directory: Path
    """Absolute."""
    exclude: tuple[str, ...] = ()
    """Patterns as in `.gitignore`; they win over those of its files."""
    gitignore: bool = True
    """Whether what `.gitignore` files name stays here."""


class Cluster(NamedTuple):
    """A whole cluster file, checked. The same value stands for `--workers` and `--hosts`, without any file."""

    name: str
    hosts: tuple[Host, ...]
    command: tuple[str, ...] = DEFAULT_COMMAND
    restart: RestartLimits = RestartLimits()
    timeouts: Timeouts = Timeouts()
    collect: tuple[str, ...] = (".",)
    """Names below the chief's output directory; `.` is all that is there."""
    sync: Sync | None = None
    collect_interval: float = 60.0
    """Seconds between two looks for new files of a chief on another host; 0: only at the end."""
    per_task: Mapping[str, tuple[str, ...]] = NOTHING
    """By task type: what its tasks run in place of `command`."""
    open_network: bool = False
    """Whether anybody may connect to the tasks' ports, not just the hosts of the run."""
    source: Source | None = None
    """None: there is no file."""

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """Each command that some task runs, once."""
        return tuple(dict.fromkeys(self.command_of(task) for host in self.hosts for task in host.tasks))

    def command_of(self, task: Task) -> tuple[str, ...]:
        """What a task runs."""
        return self.per_task.get(task.type, self.command)
