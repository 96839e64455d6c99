"""What the launcher remembers of gathered files, and one file on its way."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.gathering.arrival import Arrival
from launcher.gathering.record import SPARE_LINES, InUseError, Record
from launcher.gathering.remote_files import RefusedError, RemoteFile
from launcher.on_host.agent.messages import FilePiece, FileSent


def one(path: str) -> RemoteFile:
    return RemoteFile(path, 1, 2, "ab")


def two(path: str) -> RemoteFile:
    return RemoteFile(path, 3, 4, "cd")


def known(path: Path) -> dict[str, RemoteFile]:
    with closing(Record(path)) as record:
        return dict(record.files)


def test_what_was_put_is_known_again(tmp_path: Path) -> None:
    with closing(Record(tmp_path / "gathered.jsonl")) as record:
        record.put(one("a"))
        record.put(one("new\nline"))
        record.put(one(os.fsdecode(b"\xff")))
        record.put(two("a"))
        record.put(one("gone"))
        record.drop("gone")

    assert known(tmp_path / "gathered.jsonl") == {
        each.path: each for each in (two("a"), one("new\nline"), one(os.fsdecode(b"\xff")))
    }
    assert stat.S_IMODE((tmp_path / "gathered.jsonl").stat().st_mode) == 0o600


@given(st.integers(0, 200))
def test_a_line_that_was_cut_short_costs_no_other(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("record") / "gathered.jsonl"
    with closing(Record(path)) as record:
        record.put(one("a"))
        first = path.stat().st_size
        record.put(one("b"))
    os.truncate(path, min(first + cut, path.stat().st_size))

    with closing(Record(path)) as record:
        record.put(two("c"))
    assert {one("a"), two("c")} <= set(known(path).values()) <= {one("a"), one("b"), two("c")}


@pytest.mark.parametrize("line", [b"[]", b"1", b'{"size": 1}', b'{"path": "a", "size": 1}', b"\xff", b'{"path": []}'])
def test_a_line_that_is_not_ours_is_passed_over(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "gathered.jsonl").write_bytes(line + b"\n")

    assert known(tmp_path / "gathered.jsonl") == {}


def test_two_launchers_never_gather_one_run_at_a_time(tmp_path: Path) -> None:
    with closing(Record(tmp_path / "gathered.jsonl")), pytest.raises(InUseError):
        Record(tmp_path / "gathered.jsonl")
    Record(tmp_path / "gathered.jsonl").close()


def test_lines_that_count_no_more_do_not_pile_up(tmp_path: Path) -> None:
    path = tmp_path / "gathered.jsonl"
    with closing(Record(path)) as record:
        record.put(one("other"))
        for size in range(SPARE_LINES + 2):
            record.put(RemoteFile("growing", size, 0))

    assert len(path.read_bytes().splitlines()) == 2
    assert known(path) == {"other": one("other"), "growing": RemoteFile("growing", SPARE_LINES + 1, 0)}


# ---- an arrival
def arrival(tmp_path: Path, *, in_place: bool = False) -> Arrival:
    place, part = tmp_path / "chief" / "deep" / "file", tmp_path / "parts" / "1.part"
    return Arrival(RemoteFile("deep/file", 7, 0), place, part, in_place=in_place)


def append(begun: Arrival, offset: int, data: bytes) -> None:
    begun.append(FilePiece(1, offset, data))


def end(begun: Arrival, content: bytes, mtime_ns: int = 0) -> None:
    """The host tells that this is what it has sent."""
    begun.end(FileSent(1, len(content), hashlib.sha256(content).hexdigest(), mtime_ns, unchanged=True))
    assert begun.failure is None


def test_a_file_appears_only_when_it_is_put(tmp_path: Path) -> None:
    begun = arrival(tmp_path)
    append(begun, 0, b"con")
    append(begun, 3, b"tent")
    assert not begun.place.exists()
    assert begun.content(-2) == b"nt"
    end(begun, b"content", 123_456_789)
    begun.put()

    assert begun.place.read_bytes() == b"content"
    assert begun.place.stat().st_mtime_ns == 123_456_789
    assert list((tmp_path / "parts").iterdir()) == []


@pytest.mark.parametrize("umask", [0, 0o077])
def test_nobody_else_can_read_what_arrives(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    arrival(tmp_path).put()
    os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"chief": 0o700, "deep": 0o700, "file": 0o600, "parts": 0o700}


def test_an_arrival_goes_on_where_the_last_try_ended(tmp_path: Path) -> None:
    begun = arrival(tmp_path)
    append(begun, 0, b"con")
    begun.close()
    again = arrival(tmp_path)
    assert again.offset == 3
    assert again.sha256 == hashlib.sha256(b"con").hexdigest()
    append(again, 3, b"tent")

    end(again, b"content")
    again.discard()
    assert list((tmp_path / "parts").iterdir()) == []


def test_an_arrival_begins_anew_where_the_host_does(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "1.part").write_bytes(b"something else that is longer")
    begun = arrival(tmp_path)
    append(begun, 0, b"content")
    end(begun, b"content")
    begun.put()

    assert begun.place.read_bytes() == b"content"


def test_a_gap_is_refused(tmp_path: Path) -> None:
    begun = arrival(tmp_path)
    with pytest.raises(RefusedError, match="it sent 1 bytes from 5 on, not those from 0"):
        append(begun, 5, b"x")
    begun.discard()


def test_what_is_not_what_was_sent_is_not_taken(tmp_path: Path) -> None:
    begun = arrival(tmp_path)
    append(begun, 0, b"content")
    begun.end(FileSent(1, 7, hashlib.sha256(b"CONTENT").hexdigest(), 0, unchanged=True))

    assert begun.failure == "what came of it is not what was sent"
    begun.discard()


def test_what_grows_is_written_where_it_is(tmp_path: Path) -> None:
    arrival(tmp_path).put()
    with (tmp_path / "chief" / "deep" / "file").open("rb") as reader:
        begun = arrival(tmp_path, in_place=True)
        append(begun, 0, b"content")
        begun.put()

        assert reader.read() == b"content"


def test_what_grows_is_replaced_where_the_host_has_something_else(tmp_path: Path) -> None:
    first = arrival(tmp_path)
    append(first, 0, b"before")
    first.put()
    begun = arrival(tmp_path, in_place=True)
    assert begun.offset == 6
    append(begun, 0, b"anew")
    assert begun.place.read_bytes() == b"before"
    begun.put()

    assert begun.place.read_bytes() == b"anew"


def test_a_symbolic_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(OSError, match="symbolic"):
        Arrival(RemoteFile("link", 0, 0), tmp_path / "link", tmp_path / "part", in_place=True)
