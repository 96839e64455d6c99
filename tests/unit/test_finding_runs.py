"""Which run is meant, in a directory where others' runs and anything else may lie."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from launcher.errors import LaunchError, UsageError
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.finding import find
from launcher.run_directory.launcher_process import Launcher
from launcher.run_directory.state import RunState

NOW = datetime(2026, 11, 20, 14, 22, 33)
LATER = NOW.replace(year=2027)
NOBODY = 65534


def started(root: Path, name: str = "run", now: datetime = NOW) -> RunDirectory:
    run = RunDirectory.create(root, name, now)
    run.write_state(RunState(run.name, ("true",), "done", "", Launcher(1, "gpu-login"), {}))
    return run


def complain(text: str) -> None:
    pytest.fail(text)


def test_a_run_is_found_by_name_by_path_and_as_the_newest(tmp_path: Path) -> None:
    run = started(tmp_path)
    found = [find(tmp_path, which, complain) for which in (run.name, str(run.path), "latest", None)]
    assert {each.path.resolve() for each in found} == {run.path.resolve()}


def test_an_unknown_run_is_told_with_the_nearest(tmp_path: Path) -> None:
    run = started(tmp_path, "two_hosts")
    with pytest.raises(UsageError, match=f"Did you mean {run.name}"):
        find(tmp_path, "20261120-142233-two_host", complain)
    with pytest.raises(UsageError, match="no run of yours here yet"):
        find(tmp_path / "elsewhere", None, complain)


@pytest.mark.parametrize("which", ["", ".", "..", "../runs"])
def test_a_directory_that_others_can_write_and_that_is_no_run_is_called_none(tmp_path: Path, which: str) -> None:
    root = tmp_path / "runs"
    run = started(root)
    root.chmod(0o1777)

    with pytest.raises(UsageError, match=f"is neither the name of a run .* Did you mean {run.name}"):
        find(root, which, complain)


def test_the_newest_run_is_found_where_no_link_leads_to_it(tmp_path: Path) -> None:
    for n in range(10):
        started(tmp_path)
        started(tmp_path, "older", NOW.replace(year=2025, second=n))
    RunDirectory.create(tmp_path, "not-yet-begun", LATER)
    (tmp_path / "latest").unlink()
    assert find(tmp_path, None, complain).name == "20261120-142233-run-10"


def linked_to_nowhere(run: RunDirectory) -> None:
    run.run_file.unlink()
    run.run_file.symlink_to("/dev/zero")


def pipe(run: RunDirectory) -> None:
    run.run_file.unlink()
    os.mkfifo(run.run_file)


def directory(run: RunDirectory) -> None:
    run.run_file.unlink()
    run.run_file.mkdir()


def huge(run: RunDirectory) -> None:
    os.truncate(run.run_file, 1 << 40)


def nested(run: RunDirectory) -> None:
    run.run_file.write_bytes(b"[" * 1_000_000)


def no_json(run: RunDirectory) -> None:
    run.run_file.write_bytes(b"\xff")


def writable(run: RunDirectory) -> None:
    run.run_file.chmod(0o666)


def writable_directory(run: RunDirectory) -> None:
    run.path.chmod(0o770)


def anothers(run: RunDirectory) -> None:
    os.chown(run.run_file, NOBODY, NOBODY)
    os.chown(run.path, NOBODY, NOBODY)


def closed(run: RunDirectory) -> None:
    run.path.chmod(0)


def a_file(run: RunDirectory) -> None:
    run.run_file.unlink()
    run.path.rmdir()
    run.path.write_text("")


def unreadable_hosts(run: RunDirectory) -> None:
    host = {"name": "a", "tasks": ["worker"], "run_dir": "/r", "output_dir": "/r/o"}
    run.run_file.write_text(json.dumps(json.loads(run.run_file.read_text()) | {"hosts": [host]}))


def endless_patience(run: RunDirectory) -> None:
    host = {"name": "a", "tasks": ["worker-0"], "run_dir": "/r", "output_dir": "/r/o", "connect_timeout": math.inf}
    run.run_file.write_text(json.dumps(json.loads(run.run_file.read_text()) | {"hosts": [host]}))


ODD = [
    unreadable_hosts,
    endless_patience,
    linked_to_nowhere,
    pipe,
    directory,
    huge,
    nested,
    no_json,
    writable,
    writable_directory,
    closed,
    a_file,
]
BY_ROOT = [pytest.param(anothers, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"))]


@pytest.mark.parametrize("which", [None, "latest"])
@pytest.mark.parametrize("spoil", [*ODD, *BY_ROOT])
def test_what_lies_beside_a_run_of_ones_own_does_not_matter(
    tmp_path: Path, spoil: Callable[[RunDirectory], None], which: str | None
) -> None:
    run = started(tmp_path)
    other = started(tmp_path, "other", LATER)
    if spoil is closed:
        make_unreadable(other)
    else:
        spoil(other)

    told: list[str] = []
    assert find(tmp_path, which, told.append).name == run.name
    assert all("It is passed over" in line for line in told)


@pytest.mark.parametrize("spoil", [*ODD, *BY_ROOT])
def test_such_a_run_is_refused_by_name(tmp_path: Path, spoil: Callable[[RunDirectory], None]) -> None:
    other = started(tmp_path, "other")
    if spoil is closed:
        make_unreadable(other)
    else:
        spoil(other)

    with pytest.raises(LaunchError, match=other.name):
        find(tmp_path, other.name, complain).read_state()


def make_unreadable(run: RunDirectory) -> None:
    """As another user's is for an ordinary one; root gets one that is another user's, for nothing is closed to root."""
    if os.geteuid():
        closed(run)
    else:
        anothers(run)
        closed(run)


def test_a_link_of_another_user_does_not_say_which_run_is_the_latest(tmp_path: Path) -> None:
    older = started(tmp_path)
    newer = started(tmp_path, now=LATER)
    link = tmp_path / "latest"
    link.unlink()
    link.symlink_to(older.name)
    assert find(tmp_path, "latest", complain).name == older.name
    if os.geteuid():
        pytest.skip("needs root, who can give a link away")

    os.lchown(link, NOBODY, NOBODY)

    assert find(tmp_path, "latest", complain).name == newer.name


def test_the_remedy_for_another_users_run_names_its_owner(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root, who can give files away")
    run = started(tmp_path)
    anothers(run)

    with pytest.raises(UsageError, match=r"belongs to nobody, not to root.*sudo -u nobody.*cp -r "):
        find(tmp_path, run.name, complain)


def test_the_remedy_for_a_writable_run_takes_the_right_away(tmp_path: Path) -> None:
    run = started(tmp_path)
    run.path.chmod(0o720)

    with pytest.raises(UsageError, match=rf"mode 0720.*chmod go-w {run.path}"):
        find(tmp_path, run.name, complain)


def test_a_state_is_the_owners_of_the_directory_it_was_read_from(tmp_path: Path) -> None:
    """Between finding and reading somebody may exchange the directory, where the one above it is not ours."""
    run = find(tmp_path, started(tmp_path).name, complain)
    run.path.rename(tmp_path / "aside")
    evil = started(tmp_path)
    evil.write_state(replace(evil.read_state(), command=("evil",)))
    evil.path.chmod(0o770)

    with pytest.raises(UsageError, match="can be written by others"):
        run.read_state()
