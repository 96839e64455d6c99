"""Directories that workers run things from: whatever another user could have put there, or put in their place."""

from __future__ import annotations

import os
import pwd
import re
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.on_host.agent.below import appended_below, directory_below, remove_below, write_below
from launcher.on_host.agent.own_directory import UnsafeError, own_directory, reopened, why_unsafe
from launcher.on_host.agent.support import remove_older, write_files
from launcher.on_host.agent.workers import StartError, opened_files

Opened = Callable[[int], int]
USER, GROUP, NO_ID = 0x02, 0x08, 0xFFFFFFFF
"""Of an ACL."""


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Close a descriptor at the end of the test."""
    fds: list[int] = []

    def note(fd: int) -> int:
        fds.append(fd)
        return fd

    yield note
    for fd in fds:
        os.close(fd)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of ours, and only ours."""
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    return place


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def refused(path: Path, *, private: bool = True) -> str:
    """Why."""
    with pytest.raises(UnsafeError) as caught:
        own_directory(str(path), "run_dir", private=private)
    return f"{caught.value.filename}: {caught.value.strerror}"


# ---- the way there
def test_what_is_missing_on_the_way_is_made_for_us_alone(place: Path, opened: Opened) -> None:
    before = os.umask(0)
    try:
        opened(own_directory(str(place / "a" / "b" / "run"), "run_dir", private=True))
    finally:
        os.umask(before)
    assert [mode(place / each) for each in ("a", "a/b", "a/b/run")] == [0o700] * 3


def test_a_directory_of_ours_is_found_again(place: Path, opened: Opened) -> None:
    first = opened(own_directory(str(place / "run"), "run_dir", private=True))
    again = opened(own_directory(str(place / "run"), "run_dir", private=True))
    assert os.path.samestat(os.fstat(first), os.fstat(again))


def test_a_relative_path_begins_at_the_home_directory(
    place: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place))
    for path in ("scratch/run", "~/own/run"):
        opened(own_directory(path, "run_dir", private=True))
    assert (place / "scratch" / "run").is_dir()
    assert (place / "own" / "run").is_dir()


@pytest.mark.parametrize("widened", [0o720, 0o770, 0o702, 0o1777])
def test_a_directory_in_which_others_may_write_is_refused(place: Path, widened: int) -> None:
    (place / "run").mkdir()
    (place / "run").chmod(widened)
    why = refused(place / "run")
    assert why.startswith(f"{place}/run: others may write in it")
    assert f"mode {widened:04o}" in why
    assert f"`chmod 700 {place}/run`" in why


def test_a_directory_that_only_others_may_replace_is_refused(place: Path) -> None:
    place.chmod(0o777)
    why = refused(place / "run")
    assert why.startswith(f"{place}: any user of this host can put something else in the place of what lies in it")
    assert f"`chmod +t {place}` closes it, or name another `run_dir`" in why
    assert not (place / "run").exists()


@pytest.mark.parametrize(("kind", "rights", "is_safe"), [(USER, 7, False), (GROUP, 6, False), (USER, 5, True)])
def test_what_an_acl_allows_others_counts(place: Path, opened: Opened, kind: int, rights: int, is_safe: bool) -> None:
    place.chmod(0o770)
    if os.geteuid():
        os.chown(place, -1, pwd.getpwuid(os.geteuid()).pw_gid)
    if why_unsafe(str(place), "run_dir", is_new=True):
        pytest.skip("needs a user whose group is nobody else's")
    entries = [(0x01, 7, NO_ID), (0x04, 7, NO_ID), (kind, rights, 12345), (0x10, 7, NO_ID), (0x20, 0, NO_ID)]
    acl = b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries))
    try:
        os.setxattr(place, "system.posix_acl_access", struct.pack("<I", 2) + acl)
    except OSError as error:
        pytest.skip(f"needs a file system with ACLs: {error.strerror}")

    if is_safe:
        opened(own_directory(str(place / "run"), "run_dir", private=True))
    else:
        why = refused(place / "run")
        assert why.startswith(f"{place}: somebody whom its ACL names (see `getfacl`) can put something else")
        place.chmod(0o750)  # as the message says: that takes the right from all whom the ACL names
        opened(own_directory(str(place / "run"), "run_dir", private=True))


def test_what_would_be_refused_is_known_before_in_the_same_words_and_nothing_is_made(place: Path) -> None:
    (place / "link").symlink_to(place / "open" / "below")
    (place / "open" / "below").mkdir(parents=True)
    (place / "open").chmod(0o777)
    for root in (place / "open", place / "open" / "below", place / "open" / "missing" / "deep", place / "link"):
        told = why_unsafe(str(root), "run_dir", is_new=True)
        assert told.startswith(f"{place}/open: any user of this host can put something else in the place")
        assert told == refused(root / "run")
    told = why_unsafe(str(place / "open"), "workdir", is_new=False)
    assert told.replace("workdir", "run_dir") == refused(place / "open", private=False)
    assert names(place / "open") == ["below"]
    assert names(place / "open" / "below") == []


def test_what_would_be_taken_or_cannot_be_used_at_all_is_not_called_unsafe(place: Path) -> None:
    (place / "file").write_text("")
    (place / "shared").mkdir()
    (place / "shared").chmod(0o1777)
    for root in (place, place / "missing" / "deep", place / "file" / "deep", place / "shared"):
        assert why_unsafe(str(root), "run_dir", is_new=True) == ""
    assert why_unsafe(str(place), "workdir", is_new=False) == ""
    assert "any user of this host may write in it" in why_unsafe(str(place / "shared"), "workdir", is_new=False)
    assert names(place) == ["file", "shared"]


def test_where_only_owners_may_replace_what_is_theirs_a_directory_is_made(place: Path, opened: Opened) -> None:
    place.chmod(0o1777)
    opened(own_directory(str(place / "run"), "run_dir", private=True))
    assert mode(place / "run") == 0o700


@pytest.mark.parametrize("kind", ["link", "dangling link", "file"])
def test_what_is_no_directory_is_refused_and_left_alone(place: Path, kind: str) -> None:
    elsewhere = place / "elsewhere"
    if kind == "file":
        (place / "run").write_text("")
    else:
        (place / "run").symlink_to(elsewhere)
    if kind == "link":
        elsewhere.mkdir()
    assert "a link or a file" in refused(place / "run")
    assert not elsewhere.exists() or not list(elsewhere.iterdir())


def test_a_link_of_ours_may_lead_the_way(place: Path, opened: Opened) -> None:
    (place / "disk" / "deep").mkdir(parents=True)
    (place / "scratch").symlink_to("./disk/../disk/deep")
    (place / "second").symlink_to(place / "scratch")
    opened(own_directory(str(place / "second" / "run"), "run_dir", private=True))
    assert mode(place / "disk" / "deep" / "run") == 0o700


def test_where_a_link_leads_is_judged_as_well(place: Path) -> None:
    (place / "open").mkdir()
    (place / "open").chmod(0o777)
    (place / "scratch").symlink_to(place / "open")
    assert refused(place / "scratch" / "run").startswith(f"{place}/open: any user")


def test_links_that_lead_to_each_other_end(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        own_directory(str(place / "a" / "run"), "run_dir", private=True)


@pytest.mark.parametrize("way", ["file/run", "link/run"])
def test_a_way_that_is_no_directory_is_told(place: Path, way: str) -> None:
    (place / "file").write_text("")
    (place / "link").symlink_to("file")
    with pytest.raises(NotADirectoryError) as caught:
        own_directory(str(place / way), "run_dir", private=True)
    assert caught.value.filename == str(place / "file")


def test_a_directory_that_the_user_named_may_be_a_link_and_not_open_to_others(place: Path, opened: Opened) -> None:
    (place / "disk").mkdir(mode=0o755)
    (place / "project").symlink_to("disk")
    opened(own_directory(str(place / "project"), "workdir", private=False))
    (place / "disk").chmod(0o1777)
    assert refused(place / "project", private=False).startswith(f"{place}/disk: any user of this host may write in it")


def test_no_descriptor_stays_open_where_a_directory_is_refused(place: Path) -> None:
    (place / "run").mkdir()
    (place / "run").chmod(0o777)
    (place / "link").symlink_to("run")
    refused(place / "link" / "deep")
    before = names(Path("/proc/self/fd"))
    for path in ("run", "link", "link/deep"):
        refused(place / path)
    assert len(names(Path("/proc/self/fd"))) == len(before)


# ---- what lies there
def test_a_link_that_was_planted_is_not_opened_as_a_directory(place: Path, opened: Opened) -> None:
    run = opened(own_directory(str(place / "run"), "run_dir", private=True))
    (place / "victim").mkdir()
    (place / "run" / "support-0").symlink_to(place / "victim")
    with pytest.raises(UnsafeError, match="support-0"):
        directory_below(run, "support-0")


def test_a_directory_that_was_opened_to_others_is_not_used(place: Path, opened: Opened) -> None:
    run = opened(own_directory(str(place / "run"), "run_dir", private=True))
    (place / "run" / "support-0").mkdir()
    (place / "run" / "support-0").chmod(0o777)
    with pytest.raises(UnsafeError, match="mode 0777"):
        directory_below(run, "support-0")


def test_what_is_brought_along_replaces_a_link_and_does_not_follow_it(place: Path, opened: Opened) -> None:
    run = opened(own_directory(str(place / "run"), "run_dir", private=True))
    victim = place / "victim"
    victim.write_text("mine")
    (place / "run" / "support-0").mkdir(mode=0o700)
    (place / "run" / "support-0" / "a.py").symlink_to(victim)
    write_files(run, [["support-0/a.py", 3], ["support-0/program/b.py", 2]], b"abcde")
    assert victim.read_text() == "mine"
    assert (place / "run" / "support-0" / "a.py").read_text() == "abc"
    assert mode(place / "run" / "support-0" / "a.py") == 0o600
    assert (place / "run" / "support-0" / "program" / "b.py").read_text() == "de"
    assert names(place / "run" / "support-0") == ["a.py", "program"]


def test_what_was_planted_in_an_earlier_launch_is_gone_and_nothing_behind_a_link(place: Path, opened: Opened) -> None:
    run = opened(own_directory(str(place / "run"), "run_dir", private=True))
    (place / "victim").mkdir()
    (place / "victim" / "file").write_text("mine")
    for older in ("support", "support-1"):
        (place / "run" / older / "__pycache__").mkdir(parents=True)
        (place / "run" / older / "__pycache__" / "sitecustomize.cpython-311.pyc").write_text("planted")
        (place / "run" / older / "link").symlink_to(place / "victim")
    (place / "run" / "support-2").symlink_to(place / "victim")
    (place / "run" / "output").mkdir()
    remove_older(run, [["support-3/a.py", 0]])
    assert names(place / "run") == ["output"]
    assert (place / "victim" / "file").read_text() == "mine"


def test_a_file_that_cannot_be_written_leaves_nothing(place: Path, opened: Opened) -> None:
    run = opened(own_directory(str(place / "run"), "run_dir", private=True))
    (place / "run" / "a.py").mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        write_below(run, "a.py", b"text")
    assert caught.value.filename == str(place / "run" / "a.py")
    assert names(place / "run") == ["a.py"]


def test_removing_what_is_not_there_is_done(place: Path, opened: Opened) -> None:
    remove_below(opened(reopened(str(place))), "none")


# ---- a worker's log
def plant(log: Path, victim: Path, kind: str) -> None:
    victim.write_text("mine")
    match kind:
        case "link":
            log.symlink_to(victim)
        case "hard link":
            log.hardlink_to(victim)
        case "FIFO":
            os.mkfifo(log)
        case "directory":
            log.mkdir()


@pytest.mark.parametrize("kind", ["link", "hard link", "FIFO", "directory"])
def test_a_log_is_a_file_of_ours_or_none_is_written(place: Path, kind: str) -> None:
    (place / "attempt-0").mkdir(mode=0o700)
    log = place / "attempt-0" / "worker-0.log"
    plant(log, place / "victim", kind)
    with pytest.raises(StartError, match=re.escape(f"cannot create the log file {log}: ")):
        opened_files(str(log), str(place / "output"))
    assert (place / "victim").read_text() == "mine"


def test_a_fifo_that_somebody_reads_is_no_log(place: Path, opened: Opened) -> None:
    os.mkfifo(place / "log")
    opened(os.open(place / "log", os.O_RDONLY | os.O_NONBLOCK))
    with pytest.raises(UnsafeError, match="no file of ours"):
        appended_below(opened(reopened(str(place))), "log")


def test_a_log_is_not_made_behind_a_linked_attempt(place: Path) -> None:
    (place / "victim").mkdir()
    (place / "attempt-0").symlink_to("victim")
    with pytest.raises(StartError, match=re.escape(f"({place}/attempt-0)")):
        opened_files(str(place / "attempt-0" / "worker-0.log"), str(place / "output"))
    assert names(place / "victim") == []


def test_a_log_is_not_made_in_a_linked_run_directory(place: Path) -> None:
    (place / "victim").mkdir()
    (place / "run").symlink_to("victim")
    with pytest.raises(StartError, match=re.escape(f"({place}/run)")):
        opened_files(str(place / "run" / "attempt-0" / "worker-0.log"), str(place / "run" / "output"))
    assert names(place / "victim") == []


def test_the_log_of_a_worker_that_is_started_again_goes_on(place: Path, opened: Opened) -> None:
    for text in (b"first ", b"second"):
        written, shown = map(opened, opened_files(str(place / "attempt-0" / "ps-0.log"), str(place / "output")))
        os.write(written, text)
        assert os.get_blocking(written)
    assert os.pread(shown, 100, 0) == b"first second"
    assert [mode(place / each) for each in ("attempt-0", "attempt-0/ps-0.log", "output")] == [0o700, 0o600, 0o700]


def test_the_user_may_have_moved_the_output_directory_to_another_disk(place: Path, opened: Opened) -> None:
    (place / "disk").mkdir()
    (place / "output").symlink_to("disk")
    for fd in opened_files(str(place / "attempt-0" / "worker-0.log"), str(place / "output")):
        opened(fd)
