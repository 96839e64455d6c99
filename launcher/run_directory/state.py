"""The state of a run, as `run.json` has it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.cluster.defaults import LOCALHOST
from launcher.cluster.spec import Task, chief_of
from launcher.run_directory.launcher_process import Launcher

LOST = "lost"
"""A state that is never written: the launcher is gone and has not recorded how the run ended."""


@dataclass(frozen=True, slots=True)
class RunHost:
    """One host of a run: what is needed to reach it again and to find the run's files there."""

    name: str
    """As in the cluster file."""
    tasks: tuple[str, ...]
    """Slugs."""
    run_dir: str
    """The absolute path of the run's directory there, which contains `attempt-N`."""
    output_dir: str
    """The absolute path in `LAUNCH_OUTPUT_DIR` there."""
    ssh_options: tuple[str, ...] = ()
    """Arguments for ssh from the cluster file, with absolute paths."""
    connect_timeout: float = 10.0
    """Seconds."""

    def __post_init__(self) -> None:
        """Refuse values that no launcher writes.

        Raises:
            ValueError: a task's name or the timeout is invalid.
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
    """The content of `run.json`."""

    run_id: str
    """The run's name and 16 random digits, so that it is unique. Workers have it as LAUNCH_RUN_ID, and the run's
    directory on hosts behind ssh has this name."""
    command: tuple[str, ...]
    state: str
    """`running`, `done`, `failed` or `stopped`. A launcher that was killed leaves `running`."""
    started: str
    """ISO 8601 with the offset to UTC."""
    launcher: Launcher
    versions: Mapping[str, str]
    ended: str | None = None
    result: Mapping[str, Any] | None = None
    """How it ended: the exit code, the number of attempts, the root cause of a failure. While files are gathered after
    the end of all workers, it is there, too, though the state is still `running`."""
    hosts: tuple[RunHost, ...] = ()
    """All hosts, this machine included, once the first worker was started."""
    collect: tuple[str, ...] = ()
    """What is gathered from the chief's output directory: names below it; `.` means everything."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The command line (`launcher.run.request.Request`), secrets redacted."""
    inode: int = 0
    """The inode of the run's directory, by which a copy is recognised."""

    @property
    def loss(self) -> str:
        """What is known about the end of a `lost` run."""
        why = "without an end: killed, or the machine went down"
        if self.result is None:
            return why
        how = "done" if self.result.get("exit_code") == 0 else f"with exit code {self.result.get('exit_code')}"
        return f"{why}. Its workers had ended before ({how}), and their files were being brought"

    def lasting_id(self) -> str:
        """The run id. Earlier versions recorded its digits only in the names of directories on hosts."""
        others = (host.run_dir.rpartition("/")[2] for host in self.hosts if host.name != LOCALHOST)
        return next(others, self.run_id)
