"""How a run stands: the value in `run.json`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from launcher.cluster import Task, chief_of


@dataclass(frozen=True, slots=True)
class Launcher:
    """The process that runs a run. A pid alone may belong to somebody else by now."""

    pid: int
    created: float
    """Seconds since 1970, as psutil tells it."""

    @classmethod
    def this_process(cls) -> Launcher:
        """The process that calls."""
        import psutil

        return cls(os.getpid(), psutil.Process().create_time())

    def is_alive(self) -> bool:
        """The very process still runs."""
        if not Path(f"/proc/{self.pid}").exists():
            return False  # as with most runs; importing psutil takes its time
        import psutil

        try:
            process = psutil.Process(self.pid)
            return abs(process.create_time() - self.created) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


@dataclass(frozen=True, slots=True)
class RunHost:
    """One host of a run: all that is needed to reach it again, and to find there what the run left."""

    name: str
    """As in the cluster file."""
    tasks: tuple[str, ...]
    """Slugs."""
    run_dir: str
    """The run's directory there, absolute; `attempt-N` lies below it."""
    output_dir: str
    """What `LAUNCH_OUTPUT_DIR` names there, absolute."""
    ssh_options: tuple[str, ...] = ()
    """Words for ssh from the cluster file, every path in them absolute."""
    connect_timeout: float = 10.0
    """Seconds."""


def chief_host(hosts: Sequence[RunHost]) -> RunHost:
    """The host that the chief runs on."""
    chief = chief_of(Task.of_slug(task) for host in hosts for task in host.tasks)
    return next(host for host in hosts if chief.slug in host.tasks)


@dataclass(frozen=True, slots=True)
class RunState:
    """What `run.json` holds."""

    run_id: str
    command: tuple[str, ...]
    state: str
    """`running`, `done`, `failed` or `stopped`; and `lost`, which nobody writes down: see `in_truth`."""
    started: str
    """ISO 8601 with the offset to UTC."""
    launcher: Launcher
    versions: Mapping[str, str]
    ended: str | None = None
    result: Mapping[str, Any] | None = None
    """How it ended: the exit code, the number of attempts, the root cause of a failure."""
    hosts: tuple[RunHost, ...] = ()
    """All of them, this machine included, since the first worker was started."""
    collect: tuple[str, ...] = ()
    """What is gathered of the chief's output directory: names below it; `.` is all that is there."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """What the command line asked for (`launcher.request.Request`), secrets redacted."""

    def in_truth(self) -> RunState:
        """The same, but `lost` where the launcher has gone without writing down how the run ended."""
        gone = self.state == "running" and not self.launcher.is_alive()
        return replace(self, state="lost") if gone else self
