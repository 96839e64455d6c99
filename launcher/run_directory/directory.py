"""The run directory: every path of a run, and its files, which are written atomically."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from launcher.caller.own_files import ForeignError, read_own
from launcher.caller.working_directory import working_directory
from launcher.cluster.defaults import RUNS_DIR
from launcher.cluster.spec import Task
from launcher.errors import LaunchError, UsageError
from launcher.run_directory.launcher_process import Life
from launcher.run_directory.state import LOST, RunState
from launcher.run_directory.whole_files import make_directory, relative, shown, write_over, write_whole

LATEST = "latest"
"""A symbolic link, beside the runs' directories, to the run that was started last."""

_LONGEST_NAME = 50


class RunDirectory(NamedTuple):
    """Every path of one run. Only its owner can read it: directories have mode 0700, files 0600."""

    path: Path
    """Absolute."""

    @classmethod
    def create(cls, runs_dir: Path, name: str, now: datetime) -> RunDirectory:
        """Make `<runs_dir>/20261120-142233-<name>`, with `-2`, `-3`... appended if that exists.

        It is always a new directory, even if others can write in `runs_dir`. Missing parents are made private, too.

        Raises:
            UsageError: the directory cannot be made there.
        """
        runs_dir = Path(working_directory(), runs_dir)
        try:
            make_directory(runs_dir)
            run = cls(_new_directory(runs_dir, cls.name_for(name, now)))
        except OSError as error:
            raise UsageError(
                f"{shown(runs_dir)}: no run directory can be made here: {error.strerror}. "
                "Name a directory that you can write to with --run-dir, or make room in this one."
            ) from error
        _point_latest(runs_dir, run.path.name)
        return run

    @staticmethod
    def name_for(name: str, now: datetime) -> str:
        """The name of a run directory, before it is known whether that exists."""
        return f"{now:%Y%m%d-%H%M%S}-{file_name(name)}"

    @property
    def name(self) -> str:
        """The run's name, unique in its `runs_dir`."""
        return self.path.name

    @property
    def as_argument(self) -> str:
        """How to name the run on a command line in this working directory."""
        path = relative(self.path)
        return self.path.name if path == f"{RUNS_DIR}/{self.path.name}" else path

    @property
    def run_file(self) -> Path:
        """The state of the run: `RunState`."""
        return self.path / "run.json"

    @property
    def cluster_file(self) -> Path:
        """The cluster file of the run, secrets redacted."""
        return self.path / "cluster.yaml"

    @property
    def events_file(self) -> Path:
        """Every event except log lines, one JSON object per line."""
        return self.path / "events.jsonl"

    @property
    def chief(self) -> Path:
        """The chief's output: checkpoints, TensorBoard logs, exports."""
        return self.path / "chief"

    @property
    def gathered_file(self) -> Path:
        """Which of the chief's files were gathered, in which version, if it runs on another host."""
        return self.path / "gathered.jsonl"

    @property
    def brought_file(self) -> Path:
        """Which of the chief's files were brought to other hosts for a restart, in which version."""
        return self.path / "brought.json"

    @property
    def parts(self) -> Path:
        """Files that are still being gathered from another host."""
        return self.path / ".gathering"

    def attempt(self, attempt: int) -> Path:
        return self.path / f"attempt-{attempt}"

    def plan_file(self, attempt: int) -> Path:
        return self.attempt(attempt) / "plan.json"

    def log(self, attempt: int, task: Task) -> Path:
        """The raw bytes of a worker's stdout and stderr."""
        return self.attempt(attempt) / f"{task.slug}.log"

    def next_attempt(self) -> int:
        """The number of the run's next attempt."""
        numbers = [int(path.name[8:]) for path in self.path.glob("attempt-*") if path.name[8:].isdecimal()]
        return max(numbers, default=-1) + 1

    def make_chief(self) -> Path:
        """Make the chief's directory if it is missing."""
        return _made(self.chief)

    def make_attempt(self, attempt: int) -> Path:
        """Make the directory of an attempt if it is missing. A symbolic link there is refused."""
        path = _made(self.attempt(attempt))
        if path.is_symlink():
            raise LaunchError(f"{shown(path)}: this is a symbolic link, which nothing is written through; remove it.")
        return path

    def write_state(self, state: RunState) -> None:
        """Replace `run.json`. On a full disk it is overwritten in place.

        Raises:
            LaunchError: it cannot be written.
        """
        content = _json(asdict(state))
        try:
            write_whole(self.run_file, content)
        except LaunchError:
            if not write_over(self.run_file, content):
                raise

    def read_state(self) -> RunState:
        """Read `run.json`.

        Raises:
            UsageError: another user may have written it.
            LaunchError: it is missing, or not valid.
        """
        import msgspec  # 8 ms, which only `--resume` and `collect` need

        try:
            content = read_own(self.path, self.run_file.name)
            return msgspec.convert(json.loads(content), RunState)
        except ForeignError as error:
            raise UsageError(str(error)) from error
        except (OSError, ValueError, RecursionError) as error:
            raise LaunchError(f"{shown(self.run_file)}: no readable state of a run ({error}).") from error

    def read_final_state(self, *, take_over: bool = False) -> RunState:
        """Read `run.json` of a run whose directory no launcher holds: if that says `running`, the run is `lost`.

        Raises:
            UsageError: a launcher of an earlier version, which held nothing, may still be running it. `take_over`: the
                user knows that it is gone.
        """
        state = self.read_state()
        if state.state != "running":
            return state
        if not state.launcher.host and state.launcher.life() is not Life.GONE and not take_over:
            raise UsageError(
                f"run {shown(Path(self.name))} may still run: an earlier version of tf-launch began it as process "
                f"{state.launcher.pid}, and that is a launcher. If it is another run's, add --take-over"
            )
        return replace(state, state=LOST)

    def is_made_here(self, state: RunState) -> bool:
        """Whether the run was made on this machine in this directory, which is no copy."""
        return state.launcher.host == os.uname().nodename and state.inode == self.inode

    @property
    def inode(self) -> int:
        return self.path.stat().st_ino

    def write_plan(self, attempt: int, plan: Mapping[str, Any]) -> None:
        """Write an attempt's `plan.json`. The caller has redacted its secrets."""
        self.make_attempt(attempt)
        write_whole(self.plan_file(attempt), _json(plan))

    def write_cluster_file(self, text: str) -> None:
        """Write `cluster.yaml`. The caller has redacted its secrets."""
        write_whole(self.cluster_file, text.encode("utf-8", "surrogateescape"))


def file_name(name: str) -> str:
    """A file name without special characters: `my run/3` -> `my-run-3`."""
    safe = re.sub(r"[^\w.]+", "-", name).strip("-.")[:_LONGEST_NAME].strip("-.")
    return safe or "run"


def _new_directory(runs_dir: Path, name: str) -> Path:
    n = 1
    while True:
        path = runs_dir / (name if n == 1 else f"{name}-{n}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            n += 1
        else:
            return path


def _point_latest(runs_dir: Path, name: str) -> None:
    link = runs_dir / LATEST
    if os.path.lexists(link) and not link.is_symlink():
        return
    temporary = runs_dir / f".{LATEST}.{os.getpid()}.tmp"
    try:
        temporary.symlink_to(name)
        temporary.replace(link)
    except OSError:
        # The link is a convenience: some file systems have no links, and nothing here depends on it.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _made(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise LaunchError(f"{shown(path)}: cannot be made: {error.strerror}.") from error
    return path


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"
