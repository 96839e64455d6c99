"""One launcher at a time has a run directory.

Each `Hold` opens the file anew, so two of one process exclude each other as those of two do.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import LaunchError, UsageError
from launcher.run_directory.hold import COLLECT, DRY_RUN, LAUNCH, HeldError, Hold, UnknownHolderError
from launcher.run_directory.launcher_process import Launcher, Life


def test_the_second_is_told_who_the_first_is(tmp_path: Path) -> None:
    first = Hold(tmp_path, LAUNCH)
    with pytest.raises(HeldError) as held:
        Hold(tmp_path, LAUNCH)
    first.release()

    here = f"process {os.getpid()} on {os.uname().nodename}, since 20"
    assert f"run {tmp_path.name} still runs (launcher: {here}" in str(held.value)
    assert str(held.value).endswith(f"; stop it first (kill {os.getpid()}), or wait for its end")


def test_a_directory_that_was_let_go_can_be_held_again(tmp_path: Path) -> None:
    for _ in range(3):
        Hold(tmp_path, LAUNCH).release()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_whoever_brings_files_is_told_as_such(tmp_path: Path) -> None:
    first = Hold(tmp_path, COLLECT)
    with pytest.raises(HeldError, match=r"`launch collect` .* brings its files; wait for its end, or stop it first"):
        Hold(tmp_path, LAUNCH)
    first.release()


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    Hold(tmp_path, DRY_RUN).release()
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_sees_who_has_the_directory(tmp_path: Path) -> None:
    first = Hold(tmp_path, LAUNCH)
    with pytest.raises(HeldError):
        Hold(tmp_path, DRY_RUN)
    first.release()


def test_no_other_program_inherits_the_lock(tmp_path: Path) -> None:
    first = Hold(tmp_path, LAUNCH)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False):
        first.release()
        Hold(tmp_path, LAUNCH).release()


def test_a_launcher_that_has_got_the_lock_a_moment_ago_is_waited_for(tmp_path: Path) -> None:
    """A dry run of another launcher may hold it for a moment, and never signs."""
    first = Hold(tmp_path, DRY_RUN)
    Hold(tmp_path, LAUNCH).release()
    first.release()
    fd = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(HeldError, match="taken by another launcher just now"):
        Hold(tmp_path, LAUNCH)
    os.close(fd)
    Hold(tmp_path, LAUNCH).release()


@pytest.mark.parametrize("content", ["", "{}", "[]", "{", '{"launcher": {"pid": 1}}'])
def test_what_a_killed_launcher_has_left_half_written_is_in_nobodys_way(tmp_path: Path, content: str) -> None:
    (tmp_path / "holder-7").write_text(content)
    Hold(tmp_path, LAUNCH).release()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_claim_of_any_number_costs_no_time(tmp_path: Path) -> None:
    (tmp_path / f"holder-{10**20}").write_text("")
    Hold(tmp_path, LAUNCH).release()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_who_removes_the_lock_does_not_get_the_directory(tmp_path: Path) -> None:
    first = Hold(tmp_path, LAUNCH)
    (tmp_path / "lock").unlink()
    for does in (LAUNCH, COLLECT, DRY_RUN):
        with pytest.raises(HeldError, match="still runs"):
            Hold(tmp_path, does)
    first.release()
    Hold(tmp_path, LAUNCH).release()


def test_of_a_launcher_of_another_machine_whose_lock_was_removed_nobody_knows(tmp_path: Path) -> None:
    first = Hold(tmp_path, LAUNCH)
    claim = tmp_path / "holder-1"
    there = json.loads(claim.read_text())
    claim.write_text(json.dumps(there | {"launcher": {**there["launcher"], "host": "login2", "boot_id": "another"}}))
    (tmp_path / "lock").unlink()
    with pytest.raises(UnknownHolderError, match=r"process \d+ on login2"):
        Hold(tmp_path, LAUNCH)
    Hold(tmp_path, LAUNCH, take_over=True).release()
    first.release()


def test_a_copy_of_a_directory_that_is_held_is_free(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    first = Hold(tmp_path / "run", LAUNCH)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    Hold(tmp_path / "copy", LAUNCH).release()
    first.release()


def test_nothing_is_locked_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "lock").symlink_to("elsewhere")
    with pytest.raises(LaunchError, match="lock: cannot be opened: it is no regular file; remove it"):
        Hold(tmp_path, LAUNCH)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_locked(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "lock")
    with pytest.raises(LaunchError, match="lock: cannot be opened: it is no regular file; remove it"):
        Hold(tmp_path, LAUNCH)


def test_a_directory_that_others_can_write_to_is_not_held(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    with pytest.raises(UsageError, match="can be written by others"):
        Hold(tmp_path, LAUNCH)


# ---- which process it is
def test_this_launcher_is_known_to_be_alive_and_another_is_not() -> None:
    here = Launcher.this_process()
    assert here.life() is Life.ALIVE
    assert replace(here, start_ticks=here.start_ticks - 1).life() is Life.GONE


def test_an_ended_launcher_is_known_to_be_gone() -> None:
    tell = "from launcher.run_directory.launcher_process import Launcher; print(Launcher.this_process().start_ticks)"
    words = [sys.executable, "-c", f"{tell}\nimport sys; sys.stdout.flush(); input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        there = replace(Launcher.this_process(), pid=process.pid, start_ticks=int(process.stdout.readline()))
        assert there.life() is Life.ALIVE
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert there.life() is Life.GONE  # though its parent has not asked for its end yet
    assert there.life() is Life.GONE


def test_of_another_machine_or_pid_namespace_nothing_is_known_from_here() -> None:
    here = Launcher.this_process()
    assert replace(here, pid_namespace="pid:[1]").life() is Life.UNKNOWN
    assert replace(here, host="gpu-login", boot_id="another").life() is Life.UNKNOWN


def test_an_earlier_version_left_a_pid_only() -> None:
    with subprocess.Popen(["sleep", "1000"]) as other:
        assert Launcher(other.pid).life() is Life.GONE
        other.kill()
