"""How a run stands: the value in `run.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.cluster.defaults import LOCALHOST
from launcher.cluster.spec import Task, chief_of
from launcher.run_directory.launcher_process import Launcher

LOST = "lost"
"""A state that nobody writes down: the launcher has gone without saying how the run ended."""


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

    def __post_init__(self) -> None:
        """Refuse what a launcher has not written.

        Raises:
            ValueError: no tasks of that name, no such time.
        """
        for slug in self.tasks:
            Task.of_slug(slug)
        if not math.isfinite(self.connect_timeout):
            raise ValueError(f"connect_timeout is {self.connect_timeout}")


def chief_host(hosts: Sequence[RunHost]) -> RunHost:
    """The host that the chief runs on."""
    chief = chief_of(Task.of_slug(task) for host in hosts for task in host.tasks)
    return next(host for host in hosts if chief.slug in host.tasks)


@dataclass(frozen=True, slots=True)
class RunState:
    """What `run.json` holds."""

    run_id: str
    """The run's name and 16 random digits, as no other run has them: what its workers have as LAUNCH_RUN_ID, and what
    its directory on hosts behind ssh is called."""
    command: tuple[str, ...]
    state: str
    """`running`, `done`, `failed` or `stopped`. `running` is also what a launcher leaves that was killed."""
    started: str
    """ISO 8601 with the offset to UTC."""
    launcher: Launcher
    versions: Mapping[str, str]
    ended: str | None = None
    result: Mapping[str, Any] | None = None
    """How it ended: the exit code, the number of attempts, the root cause of a failure. While it is `running`: how its
    workers ended, whose files are being brought."""
    hosts: tuple[RunHost, ...] = ()
    """All of them, this machine included, since the first worker was started."""
    collect: tuple[str, ...] = ()
    """What is gathered of the chief's output directory: names below it; `.` is all that is there."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """What the command line asked for (`launcher.run.request.Request`), secrets redacted."""
    inode: int = 0
    """Of the run's directory: a copy of it has another one."""

    @property
    def loss(self) -> str:
        """What is known of the end of a run that is `lost`."""
        why = "without an end: killed, or the machine went down"
        if self.result is None:
            return why
        how = "done" if self.result.get("exit_code") == 0 else f"with exit code {self.result.get('exit_code')}"
        return f"{why}. Its workers had ended before ({how}), and their files were being brought"

    def lasting_id(self) -> str:
        """The run id. A run that an earlier version began wrote down no digits but those on hosts."""
        others = (host.run_dir.rpartition("/")[2] for host in self.hosts if host.name != LOCALHOST)
        return next(others, self.run_id)
