"""What a run writes down of itself once its first worker runs: nobody waits for a disk before that."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from launcher import __version__
from launcher.cluster.plan import AttemptPlan
from launcher.cluster.redaction.commands import redacted_words
from launcher.errors import LaunchError
from launcher.run.result import RunResult
from launcher.run.run import Run
from launcher.run_directory.launcher_process import Launcher
from launcher.run_directory.state import RunHost, RunState
from launcher.run_directory.whole_files import relative


class RunRecord:
    """The plans, the cluster file and `run.json`. One that cannot be written is told of, and no reason to end a run."""

    def __init__(self, run: Run, complain: Callable[[str], None]) -> None:
        """`complain` shows the user what cannot be written."""
        self._run = run
        self._complain = complain

    def begin(self, plan: AttemptPlan, hosts: Sequence[RunHost], *, is_first: bool) -> None:
        """An attempt is under way, the first one of this launch or a further one."""
        with self._complaining():
            self._run.directory.write_plan(plan.attempt, plan.as_record())
            if not is_first:
                return
            if self._run.cluster.source is not None:
                self._run.directory.write_cluster_file(self._run.cluster.source.redacted())
            self._write_state("running", hosts)

    def bring(self, result: RunResult, hosts: Sequence[RunHost]) -> None:
        """All workers have ended, like this; their files are brought, and that may take long."""
        with self._complaining():
            self._write_state("running", hosts, result)

    def end(self, result: RunResult, hosts: Sequence[RunHost]) -> None:
        """The run is over; `hosts` are empty where no worker was started."""
        with self._complaining():
            self._write_state(result.state, hosts, result)

    def _write_state(self, state: str, hosts: Sequence[RunHost], result: RunResult | None = None) -> None:
        record = RunState(
            run_id=self._run.names.run_id,
            command=tuple(redacted_words(self._run.cluster.command)),
            state=state,
            started=self._run.started.isoformat(timespec="seconds"),
            launcher=Launcher.this_process(),
            versions={"tf-launch": __version__, "python": platform.python_version()},
            ended=None if state == "running" else datetime.now().astimezone().isoformat(timespec="seconds"),
            result=None if result is None else result.as_record(),
            hosts=tuple(replace(host, ssh_options=tuple(redacted_words(host.ssh_options))) for host in hosts),
            collect=self._run.cluster.collect,
            request=self._run.request.as_record(),
            inode=self._run.directory.inode,
        )
        self._run.directory.write_state(record)

    @contextlib.contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except LaunchError as error:
            self._complain(str(error))
        except OSError as error:  # the cluster file may have gone, or all of the run's directory
            where = f"{relative(error.filename)}: {error.strerror}" if error.filename else str(error)
            self._complain(f"not all of this run is written down: {where}")
