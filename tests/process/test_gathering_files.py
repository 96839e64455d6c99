"""Files of another host come here whole, once, and without harm to anything: a real agent, real files."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.gathering_host import INDEX_END, SHARD, GatheringHost, contents
from support.launching import MARK, disk
from support.modes import obeying_modes

from launcher.gathering.chief_directory import NoRoomError
from launcher.gathering.conversation import GivenUpError, HostAwayError
from launcher.gathering.record import InUseError, Record
from launcher.on_host.agent.messages import ListFiles

MB = 1_000_000


@pytest.fixture
def host(tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[GatheringHost]:
    monkeypatch.setenv(MARK, mark)
    host = GatheringHost(tmp_path)
    yield host
    host.close()


# ---- what comes
def test_everything_comes(host: GatheringHost) -> None:
    host.save(5)
    host.write("tensorboard/train/events.out.tfevents.1.host.1.0.v2", os.urandom(5000))
    host.write("export/model.keras", os.urandom(3 * MB))
    host.write("export/empty", b"")
    host.write("model.txt", b"its own")
    host.write("deep/er/notes.md", b"its own, too")
    host.write("cache/a copy", b"of data")
    host.write("half.tmp")
    gathered = host.gather()

    there = {path: content for path, content in host.there.items() if path not in ("cache/a copy", "half.tmp")}
    assert host.here == there
    assert sorted(file.path for file in gathered.stays) == ["cache/a copy", "half.tmp"]
    assert gathered.received == sum(map(len, there.values()))
    assert gathered.left == {}
    assert host.parts == []
    for path in there:
        assert (host.chief / path).stat().st_mtime_ns == (host.output / path).stat().st_mtime_ns


def test_what_has_come_is_for_its_owner_only(host: GatheringHost) -> None:
    host.save(5)
    host.write("export/saved_model/variables/x").chmod(0o777)
    host.gather()

    for path in host.run.path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_what_has_come_is_written_down(host: GatheringHost) -> None:
    content = host.write("export/model.keras", b"12345").read_bytes()
    host.gather()

    (line,) = [json.loads(line) for line in host.run.gathered_file.read_text().splitlines()]
    assert line == {
        "path": "export/model.keras",
        "size": 5,
        "mtime_ns": 10**18,
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def test_a_host_that_has_nothing_yet_gives_nothing(host: GatheringHost) -> None:
    assert host.gather(final=False).batches == []
    host.output.rmdir()
    assert host.gather().batches == []


# ---- what is here does not come again
def test_an_unchanged_file_is_not_sent_again(host: GatheringHost) -> None:
    host.save(5)
    host.write("export/model.keras")
    host.gather()
    host.asked.clear()

    assert host.gather().received == 0
    assert host.asked == [ListFiles]


def test_only_what_is_new_is_sent(host: GatheringHost) -> None:
    host.write("export/old.keras")
    host.save(5)
    host.gather()
    host.write("export/model.keras", b"new", mtime=2e9)

    assert host.gather().received == 3
    assert host.here == host.there


def test_a_file_of_the_same_size_and_another_time_is_sent(host: GatheringHost) -> None:
    host.write("export/model.keras", b"1")
    host.gather()
    host.write("export/model.keras", b"2", mtime=2e9)
    host.gather()

    assert host.here == {"export/model.keras": b"2"}


def test_of_a_file_that_grows_only_the_new_bytes_are_sent(host: GatheringHost) -> None:
    path = "tensorboard/events.out.tfevents.1.host.1.0.v2"
    host.write(path, b"first")
    host.gather(final=False)
    with (host.chief / path).open("rb") as tensorboard:
        assert tensorboard.read() == b"first"
        host.write(path, b"first, second", mtime=2e9)
        gathered = host.gather(final=False)

        assert gathered.received == len(b", second")
        assert tensorboard.read() == b", second"


def test_of_a_table_that_was_appended_to_only_the_new_lines_are_sent(host: GatheringHost) -> None:
    host.write("metrics.csv", first := os.urandom(2 * MB))
    host.gather(final=False)
    host.write("metrics.csv", first + b"a line", mtime=2e9)

    assert host.gather(final=False).received == len(b"a line")
    assert host.here == host.there
    host.write("metrics.csv", b"x" * (2 * MB + 10), mtime=3e9)

    assert host.gather().received == 2 * MB + 10
    assert host.here == host.there


def test_a_file_that_grows_and_was_begun_anew_is_replaced(host: GatheringHost) -> None:
    path = "tensorboard/events.out.tfevents.1.host.1.0.v2"
    host.write(path, b"a long first version")
    host.gather(final=False)
    host.write(path, b"anew", mtime=2e9)
    host.gather(final=False)

    assert host.here == {path: b"anew"}


def test_a_file_that_was_lost_here_is_sent_again(host: GatheringHost) -> None:
    host.write("export/model.keras", b"12345")
    host.write("export/other.keras", b"12345")
    host.gather()
    (host.chief / "export/model.keras").unlink()
    os.truncate(host.chief / "export/other.keras", 2)

    assert host.gather().received == 10
    assert host.here == host.there


def test_without_its_record_a_file_is_known_by_its_size_and_time(host: GatheringHost) -> None:
    host.save(5)
    host.gather()
    host.run.gathered_file.unlink()

    assert host.gather().received == 0
    host.save(6)
    assert host.gather().left == {}
    assert host.here == {path: content for path, content in host.there.items() if "step-5" not in path} | {
        path: content for path, content in host.there.items() if "step-5" in path
    }


# ---- checkpoints
def test_a_checkpoint_is_told_of_while_the_run_goes_on(host: GatheringHost) -> None:
    host.save(5, size=3_900_000)
    host.gather(final=False)

    assert host.said == ["gathered checkpoints/step-5 (2 files, 3.9 MB)"]


def test_a_rotated_checkpoint_goes_when_a_newer_one_is_here(host: GatheringHost) -> None:
    first = host.save(5)
    host.gather()
    for ending in (SHARD, ".index"):
        (host.output / (first + ending)).unlink()
    host.save(6)
    host.gather()

    assert host.here == host.there
    assert len(host.here) == 3


@pytest.mark.parametrize("steps", range(5))
def test_a_launcher_that_ends_while_it_removes_a_checkpoint_leaves_no_index_without_its_data(
    host: GatheringHost, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    first = host.save(5)
    host.gather()
    for ending in (SHARD, ".index"):
        (host.output / (first + ending)).unlink()
    host.save(6)
    left = itertools.count(steps, -1)

    def end_in_time(step: Callable[..., None]) -> Callable[..., None]:
        def taken(*arguments: object, **options: object) -> None:
            if next(left) <= 0:
                raise KilledError
            step(*arguments, **options)

        return taken

    class KilledError(BaseException):
        """SIGKILL, as far as the files are concerned."""

    with monkeypatch.context() as killing, contextlib.suppress(KilledError):
        removing = [(Path, "unlink"), (Record, "drop")]
        for owner, name in removing:
            killing.setattr(owner, name, end_in_time(getattr(owner, name)))
        host.gather()
    if f"{first}.index" in host.here:
        assert first + SHARD in host.here
    host.gather()

    assert host.here == host.there


def test_a_checkpoint_stays_until_the_file_that_names_its_successor_is_here(host: GatheringHost) -> None:
    first = host.save(5)
    host.gather()
    for ending in (SHARD, ".index"):
        (host.output / (first + ending)).unlink()
    host.save(6)
    host.write("checkpoints/checkpoint", b'model_checkpoint_path: "step-7"\n', mtime=2e9)
    gathered = host.gather()
    assert gathered.left == {"checkpoints/checkpoint": "the newest checkpoint that it names is not here"}
    assert {f"{first}.index", first + SHARD} < host.here.keys()

    host.save(7)
    host.gather()
    assert host.here == host.there


def test_an_index_is_gone_before_the_data_of_its_successor_come(host: GatheringHost) -> None:
    prefix = host.save(5)
    host.gather()
    host.write(prefix + SHARD, b"new data", mtime=2e9)
    host.write(prefix + ".index", b"new" + INDEX_END, mtime=2e9 + 1)
    in_the_way = host.chief / (prefix + SHARD)
    in_the_way.unlink()
    in_the_way.mkdir()
    (in_the_way / "mine").touch()
    host.gather()
    assert (prefix + ".index") in host.here

    (in_the_way / "mine").unlink()
    in_the_way.rmdir()
    host.gather()
    assert host.here == host.there


# ---- what cannot be read or written here
@pytest.fixture
def ordinary_user(tmp_path: Path) -> Iterator[None]:
    """This process without root's power over files that it owns."""
    with obeying_modes():
        yield
    for path in tmp_path.rglob("closed"):
        path.chmod(0o700)


@pytest.mark.usefixtures("ordinary_user")
@pytest.mark.parametrize("mode", [0, 0o500])
def test_a_directory_here_that_takes_nothing_costs_only_what_belongs_there(host: GatheringHost, mode: int) -> None:
    host.write("closed/a", b"1")
    host.gather()
    host.write("closed/a", b"22", mtime=2e9)
    host.write("open/b", b"333")
    (host.chief / "closed").chmod(mode)
    gathered = host.gather()

    assert host.here["open/b"] == b"333"
    assert gathered.trouble is not None
    assert gathered.trouble.filename == str(host.chief / "closed")
    assert list(gathered.left) == ["closed/a"]


@pytest.mark.usefixtures("ordinary_user")
def test_a_run_directory_that_cannot_be_read_is_told_and_not_taken_for_an_empty_host(
    host: GatheringHost, tmp_path: Path
) -> None:
    closed = host.run.path.rename(tmp_path / "closed")
    host.run.path.symlink_to(closed)
    closed.chmod(0)

    with pytest.raises(PermissionError):
        host.gather_logs()


def test_a_directory_that_was_removed_here_is_made_again(host: GatheringHost) -> None:
    host.save(5)
    host.gather()
    shutil.rmtree(host.chief)
    host.gather()

    assert host.here == host.there


def test_what_cannot_be_read_there_any_more_stays_here(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, mark)
    with obeying_modes(), contextlib.closing(GatheringHost(tmp_path)) as host:  # the agent, too
        closed = host.write("model.txt", mtime=1e9)
        host.gather()
        host.write("newer.txt", mtime=2e9)
        closed.chmod(0)
        gathered = host.gather()

        assert gathered.left == {"model.txt": "Permission denied"}
        assert sorted(host.here) == ["model.txt", "newer.txt"]


def test_a_file_in_the_place_of_the_directory_here_is_told(host: GatheringHost) -> None:
    host.save(5)
    host.write("model.txt")
    (host.chief / "checkpoints").touch()
    gathered = host.gather()

    assert gathered.left["checkpoints/step-5"] == "a file is in the place of its directory here"
    assert host.here["model.txt"] == b"content"
    shutil.rmtree(host.chief)
    host.chief.touch()
    with pytest.raises(FileExistsError):
        host.gather()


def test_a_disk_that_is_read_only_is_told_as_such(host: GatheringHost) -> None:
    host.write("a/b")
    with disk(host.chief, megabytes=1):
        subprocess.run(["mount", "-o", "remount,ro", host.chief], check=True)
        gathered = host.gather()

    assert gathered.trouble is not None
    assert gathered.trouble.errno == errno.EROFS
    assert gathered.left == {"a/b": "here, nothing can be written beside it: Read-only file system"}


def test_what_a_cleared_disk_has_lost_stays_here(host: GatheringHost) -> None:
    host.save(5)
    host.gather()
    kept = host.here
    subprocess.run(["rm", "-r", host.output / "checkpoints"], check=True)
    host.gather()

    assert host.here == kept


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([SHARD], "its index is not there"),
        ([".data-00000-of-00002", ".index"], "1 of its data files are not there"),
        ([SHARD, ".index"], "its index is not whole"),
    ],
)
def test_a_half_written_checkpoint_is_not_taken(host: GatheringHost, files: list[str], reason: str) -> None:
    host.save(5)
    for ending in files:
        host.write(f"checkpoints/step-6{ending}", b"half", mtime=1e9 + 6)
    gathered = host.gather()

    assert gathered.left == {"checkpoints/step-6": reason}
    assert not [path for path in host.here if "step-6" in path]
    assert "checkpoints/step-5.index" in host.here


def test_the_state_file_waits_for_the_checkpoint_that_it_names(host: GatheringHost) -> None:
    host.save(5)
    host.gather()
    host.write("checkpoints/checkpoint", b'model_checkpoint_path: "step-6"\n', mtime=1e9 + 6)
    gathered = host.gather()
    assert gathered.left == {"checkpoints/checkpoint": "the newest checkpoint that it names is not here"}
    assert host.here["checkpoints/checkpoint"] == b'model_checkpoint_path: "step-5"\n'

    host.save(6)
    host.gather()
    assert host.here == host.there


def test_steps_on_the_way_to_a_checkpoint_do_not_come(host: GatheringHost) -> None:
    host.save(5)
    whole = host.there
    host.write("checkpoints/step-6_temp/part-00000-of-00001.index")
    host.write("checkpoints/workertemp_1/step-6.index")
    host.write("checkpoints/checkpoint.tmp3c76fe60e8754db899296af7f01a73a3")
    host.gather()

    assert host.here == whole


# ---- what changes meanwhile
def once(action: Callable[[], object]) -> Callable[[], object]:
    """Do something with the first piece that arrives, and nothing with the others."""
    actions = [action]
    return lambda: actions.pop()() if actions else None


def test_a_file_that_changes_while_it_is_sent_waits(host: GatheringHost) -> None:
    file = host.write("export/model.keras", bytes(8 * MB))
    host.on_piece = once(lambda: os.utime(file, (2e9, 2e9)))
    gathered = host.gather(final=False)
    assert gathered.left == {"export/model.keras": "it was written to while it was sent"}
    assert host.here == {}

    assert host.gather(final=False).received == 0  # what had come of it is not sent again
    assert host.here == host.there


def test_a_checkpoint_that_is_replaced_while_it_is_sent_waits(host: GatheringHost) -> None:
    prefix = host.save(5, size=8 * MB)
    host.on_piece = once(lambda: host.save(5, size=8 * MB))
    gathered = host.gather(final=False)
    assert prefix in gathered.left
    assert not [path for path in host.here if path.startswith(prefix)]

    host.gather(final=False)
    assert host.here == host.there


def test_a_checkpoint_that_goes_while_it_is_sent_costs_nothing_else(host: GatheringHost) -> None:
    host.save(5)
    prefix = host.save(6, size=8 * MB)
    host.on_piece = once(lambda: (host.output / (prefix + ".index")).unlink())
    gathered = host.gather(final=False)

    assert gathered.left[prefix] == "No such file or directory"
    assert "checkpoints/step-5.index" in host.here


def test_a_file_that_grows_while_it_is_sent_is_taken_as_far_as_it_was(host: GatheringHost) -> None:
    path = "tensorboard/events.out.tfevents.1.host.1.0.v2"
    content = os.urandom(8 * MB)
    file = host.write(path, content)

    def grow() -> None:
        with file.open("ab") as events:
            events.write(b"more")

    host.on_piece = once(grow)
    host.gather(final=False)
    assert host.here == {path: content}

    assert host.gather(final=False).received == 4
    assert host.here == host.there


# ---- a broken link
@pytest.mark.parametrize("pieces", [1, 5, 20])
def test_a_broken_link_costs_only_what_was_on_its_way(host: GatheringHost, pieces: int) -> None:
    host.save(5, size=16 * MB)
    left = [pieces]

    def cut() -> None:
        left[0] -= 1
        if not left[0]:
            host.cut()

    host.on_piece = cut
    with pytest.raises(HostAwayError, match="the link is cut"):
        host.gather()
    assert host.here == {}
    had = sum(map(len, host.parts))
    host.on_piece = lambda: None
    host.close()
    host.connect()
    gathered = host.gather()

    assert had > 0
    assert gathered.received == sum(map(len, host.there.values())) - had
    assert host.here == host.there
    assert host.parts == []


def test_an_arrival_goes_on_at_any_offset(host: GatheringHost) -> None:
    content = os.urandom(3 * MB)
    numbers = random.Random(3)
    for offset in [0, 1, 1 << 18, (1 << 18) + 1, 3 * MB - 1, 3 * MB, *(numbers.randrange(3 * MB) for _ in range(30))]:
        host.write("export/model.keras", content)
        place = hashlib.sha256(b"export/model.keras").hexdigest()[:32]
        host.run.parts.mkdir()
        (host.run.parts / f"{place}.part").write_bytes(content[:offset])

        assert host.gather().received == 3 * MB - offset
        assert host.here == host.there
        (host.chief / "export/model.keras").unlink()


@pytest.mark.parametrize("part", [b"something else", bytes(4 * MB)], ids=["other bytes", "too many bytes"])
def test_what_came_of_another_version_is_thrown_away(host: GatheringHost, part: bytes) -> None:
    host.write("export/model.keras", os.urandom(3 * MB))
    host.run.parts.mkdir()
    place = hashlib.sha256(b"export/model.keras").hexdigest()[:32]
    (host.run.parts / f"{place}.part").write_bytes(part)

    assert host.gather().received == 3 * MB
    assert host.here == host.there


def test_a_user_who_does_not_want_to_wait_need_not(host: GatheringHost) -> None:
    host.save(5, size=16 * MB)
    host.on_piece = once(lambda: host.conversation.hear(GivenUpError()))
    with pytest.raises(GivenUpError):
        host.gather()
    assert len(host.parts) > 0

    host.gather()
    assert host.here == host.there


# ---- hostile names and places
@pytest.mark.parametrize(
    "name",
    [
        "new\nline",
        'quote\'s "here"',
        "$HOME`id`",
        "umlaut-ü-雪",
        "-dash",
        " ",
        "a\\b",
        os.fsdecode(b"\xff\xfe"),
        "n" * 255,
    ],
    ids=repr,
)
def test_a_file_may_have_any_name(host: GatheringHost, name: str) -> None:
    host.write(f"export/{name}/{name}")
    host.write(f"checkpoints/{name[:200]}-1{SHARD}", b"shard")
    host.write(f"checkpoints/{name[:200]}-1.index", INDEX_END)

    assert host.gather().left == {}
    assert host.here == host.there
    assert host.gather().received == 0


def test_a_file_may_lie_a_hundred_levels_deep(host: GatheringHost) -> None:
    host.write("export/" + "level/" * 100 + "file")
    host.gather()

    assert host.here == host.there


def test_a_name_that_is_too_long_here_costs_nothing_else(host: GatheringHost) -> None:
    host.write("export/model.keras")
    directory = os.open(host.output / "export", os.O_RDONLY)
    for _ in range(50):
        os.mkdir("n" * 200, dir_fd=directory)
        deeper = os.open("n" * 200, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = deeper
    os.close(os.open("file", os.O_CREAT, dir_fd=directory))
    os.close(directory)
    gathered = host.gather()

    assert list(gathered.left.values()) == ["here, its name cannot be used: File name too long"]
    assert host.here == {"export/model.keras": b"content"}


def test_a_symbolic_link_is_not_followed(host: GatheringHost, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (host.output / "export").mkdir()
    (host.output / "export" / "link").symlink_to(tmp_path / "secret")
    (host.output / "export" / "up").symlink_to("../..")
    (host.output / "tensorboard").symlink_to(tmp_path)

    assert host.gather().left == dict.fromkeys(["export/link", "export/up", "tensorboard"], "it is a symbolic link")
    assert host.here == {}


# ---- what is here and not ours
@pytest.mark.parametrize("final", [False, True])
def test_a_file_that_is_not_ours_is_not_touched(host: GatheringHost, final: bool) -> None:
    host.write("export/model.keras", b"theirs")
    (host.chief / "export" / "notes").mkdir(parents=True)
    (host.chief / "export" / "model.keras").write_bytes(b"mine")
    (host.chief / "export" / "notes" / "a").write_bytes(b"mine")
    host.write("export/notes", b"a file there, a directory here")
    gathered = host.gather(final=final)

    assert contents(host.chief / "export") == {"model.keras": b"mine", "notes/a": b"mine"}
    assert gathered.left == {
        "export/model.keras": "another file, which is not ours, is in its place here",
        "export/notes": "a directory is in its place here",
    }


def test_two_launchers_never_gather_one_run_at_a_time(host: GatheringHost) -> None:
    host.save(5)
    with contextlib.closing(Record(host.run.gathered_file)), pytest.raises(InUseError):
        host.gather()

    assert host.gather().left == {}


# ---- the disk here
@pytest.fixture
def small_disk(host: GatheringHost) -> Iterator[GatheringHost]:
    """The run's directory is on a disk of 8 MB."""
    with disk(host.run.path, megabytes=8):
        host.run.make_chief()
        yield host


def test_a_full_disk_is_told_before_anything_is_written(small_disk: GatheringHost) -> None:
    small_disk.write("export/model.keras", b"small", mtime=2)
    small_disk.write("checkpoints/large", bytes(20 * MB), mtime=1)
    before = small_disk.there
    with pytest.raises(
        NoRoomError, match=r"no room in .*/run/chief for checkpoints/large: 20.0 MB are needed, \d.\d MB"
    ):
        small_disk.gather()

    assert small_disk.here == {"export/model.keras": b"small"}
    assert small_disk.parts == []
    assert small_disk.there == before


def test_a_disk_that_fills_up_meanwhile_is_left_as_it_was(small_disk: GatheringHost) -> None:
    small_disk.save(5, size=5 * MB)
    filler = small_disk.run.path / "filler"
    small_disk.on_piece = once(lambda: fill(filler))
    with pytest.raises(OSError, match="No space left on device") as raised:
        small_disk.gather()
    assert raised.value.errno == errno.ENOSPC
    assert raised.value.filename == str(small_disk.chief / f"checkpoints/step-5{SHARD}")
    assert small_disk.parts == []

    filler.unlink()
    small_disk.gather()
    assert small_disk.here == small_disk.there


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            return


def test_a_file_that_may_not_be_so_large_here_is_told(host: GatheringHost) -> None:
    host.write("export/model.keras", bytes(8 * MB))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * MB, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            host.gather()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert raised.value.filename == str(host.chief / "export/model.keras")
    assert host.here == {}


# ---- much
def test_a_thousand_small_files_come(host: GatheringHost) -> None:
    for number in range(1000):
        host.write(f"export/{number % 7}/{number}", str(number).encode())
    host.gather()

    assert host.here == host.there
    assert host.gather().received == 0


def test_a_large_file_takes_little_memory_on_both_sides(host: GatheringHost) -> None:
    host.write("export/large").unlink()
    with (host.output / "export/large").open("wb") as large:
        large.truncate(200 * MB)
    Path("/proc/self/clear_refs").write_text("5")  # from here on the peak is counted anew
    before = memory("self", "VmRSS")
    host.gather()

    assert (host.chief / "export/large").stat().st_size == 200 * MB
    assert memory("self", "VmHWM") - before < 48 * MB
    assert memory(str(host.agent), "VmHWM") < 48 * MB


def memory(process: str, key: str) -> int:
    """Bytes that a process has (VmRSS), or has had at its peak (VmHWM)."""
    lines = dict(line.split(":") for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(lines[key].split()[0]) * 1024


# ---- logs
def test_what_is_missing_of_a_log_comes(host: GatheringHost) -> None:
    for attempt in (0, 1):
        host.run.make_attempt(attempt)
        host.write(f"../attempt-{attempt}/worker-0.log", b"line 1\nline 2\n")
        host.write(f"../attempt-{attempt}/worker-1.progress.jsonl", b"{}\n")
        host.write(f"../attempt-{attempt}/worker-7.log", b"of another host")
        host.write(f"../attempt-{attempt}/plan.json", b"theirs")
    log = host.run.path / "attempt-0" / "worker-0.log"
    log.write_bytes(b"line 1\n")
    with log.open("rb") as reader:
        gathered = host.gather_logs()
        assert reader.read() == b"line 1\nline 2\n"

    assert gathered.received == len(b"line 2\n" + b"line 1\nline 2\n" + 2 * b"{}\n")
    expected = {"worker-0.log": b"line 1\nline 2\n", "worker-1.progress.jsonl": b"{}\n"}
    assert contents(host.run.path / "attempt-0") == expected
    assert contents(host.run.path / "attempt-1") == expected
    assert host.gather_logs().received == 0


def test_a_log_that_differs_is_fetched_anew(host: GatheringHost) -> None:
    host.run.make_attempt(0)
    host.write("../attempt-0/worker-0.log", b"what the worker wrote")
    (host.run.path / "attempt-0" / "worker-0.log").write_bytes(b"damaged")
    host.gather_logs()

    assert contents(host.run.path / "attempt-0") == {"worker-0.log": b"what the worker wrote"}


def test_a_log_whose_end_the_host_has_lost_stays(host: GatheringHost) -> None:
    host.run.make_attempt(0)
    host.write("../attempt-0/worker-0.log", b"line 1\n")
    (host.run.path / "attempt-0" / "worker-0.log").write_bytes(b"line 1\nline 2\n")

    assert host.gather_logs().left == {
        "attempt-0/worker-0.log": "more of it is here than there: the host has lost the end of it"
    }
    assert contents(host.run.path / "attempt-0") == {"worker-0.log": b"line 1\nline 2\n"}
