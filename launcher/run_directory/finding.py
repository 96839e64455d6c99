"""Finds the run that the user means. Runs of other users are never opened."""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from launcher.caller.own_files import ForeignError, open_own, own_directory
from launcher.errors import LaunchError, UsageError
from launcher.run_directory.directory import LATEST, RunDirectory
from launcher.run_directory.whole_files import shown

NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_STAMP = re.compile(r"(\d{8}-\d{6})-(.+?)(?:-(\d+))?")


def find(runs_dir: Path, run: str | None, complain: Callable[[str], object]) -> RunDirectory:
    """The run that the user means: by name in `runs_dir`, by path, or the last one started (None, `latest`).

    `complain` is called with a message about each newer run that cannot be read.

    Raises:
        UsageError: there is no such run, or another user owns it or may write to it.
        LaunchError: it cannot be read.
    """
    if run in (None, LATEST):
        return _linked(runs_dir) or newest(runs_dir, complain)
    for path in (runs_dir / str(run), Path(str(run))):
        try:
            _open_run(path)
        except ForeignError as error:
            if os.access(path, os.X_OK) and not os.path.lexists(path / "run.json"):
                continue  # not a run, but the directory of all runs, for example
            raise UsageError(str(error)) from error
        except OSError as error:
            if error.errno in NOT_THERE:
                continue
            raise LaunchError(f"{shown(path / 'run.json')}: no readable state of a run ({error}).") from error
        return RunDirectory(path.resolve())
    raise UsageError(_unknown_run(runs_dir, str(run)))


def newest(runs_dir: Path, complain: Callable[[str], object]) -> RunDirectory:
    """The run below `runs_dir` that was started last.

    Raises:
        UsageError: there is none.
    """
    for run in _own_runs(runs_dir):
        try:
            run.read_state()
        except LaunchError as error:
            complain(f"{error} It is passed over.")
            continue
        return run
    raise UsageError(f"{shown(runs_dir)}: no run of yours here yet. Start one, or name the directory of a run.")


def _linked(runs_dir: Path) -> RunDirectory | None:
    """The run that `latest` points to; None if another user has made the link or the run, or it cannot be read."""
    link = runs_dir / LATEST
    try:
        if not link.is_symlink() or link.lstat().st_uid != os.geteuid():
            return None
        _open_run(link)
        run = RunDirectory(link.resolve())
        run.read_state()
    except (ForeignError, OSError, LaunchError):
        return None
    return run


def _own_runs(runs_dir: Path) -> Iterator[RunDirectory]:
    """All runs of this user, the latest first."""
    try:
        names = [path.name for path in runs_dir.iterdir() if _STAMP.fullmatch(path.name)]
    except OSError:
        return  # no such directory yet, or it cannot be read: there is nothing to list
    for name in sorted(names, key=_age, reverse=True):
        try:
            _open_run(runs_dir / name)
        except (ForeignError, OSError):
            continue  # another user's run, one that has not begun, or no run at all
        yield RunDirectory((runs_dir / name).absolute())


def _open_run(path: Path) -> None:
    """Check that a directory has a `run.json`, and that only this user owns and may write both.

    Raises:
        ForeignError: another user owns one of them or may write to it.
        OSError: one of them cannot be opened, or is something else.
    """
    with own_directory(path) as directory:
        os.close(open_own(directory, "run.json", path))


def _age(name: str) -> tuple[str, int, str]:
    match = _STAMP.fullmatch(name)
    assert match
    return match[1], int(match[3] or 1), name


def _unknown_run(runs_dir: Path, run: str) -> str:
    names = [known.name for known in _own_runs(runs_dir)]
    near = difflib.get_close_matches(run, names, n=1, cutoff=0.4) or names[:1]
    advice = f"Did you mean {near[0]}?" if near else "There is no run of yours there yet."
    return f"{run!r} is neither the name of a run in {shown(runs_dir)} nor the path of a run directory. {advice}"
