"""What an agent tells of files."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.on_host.agent.files import (
    BATCH,
    Files,
    open_below,
    walk,
)
from launcher.on_host.agent.late_jobs import LateJob, delivery_job, gathering_job, project_job
from launcher.on_host.agent.link import Link
from launcher.on_host.agent.messages import (
    Command,
    Event,
    FilePiece,
    FilesArrived,
    FileSent,
    FilesFailed,
    FilesListed,
    FilesListEnded,
    ForgetFiles,
    ListFiles,
    SendFile,
)
from launcher.on_host.agent.window import FIRST, PIECE

HOSTILE = ["new\nline", 'quote\'s "here"', "$HOME`id`", "umlaut-ü-雪", "-dash", " ", "a\\b", os.fsdecode(b"\xff\xfe")]


class Told(Link):
    """What an agent would tell the launcher."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.backlog = 0

    def tell(self, event: Event) -> None:
        self.messages.append(event)

    def of(self, kind: type[Event]) -> list[Any]:
        return [each for each in self.messages if isinstance(each, kind)]

    @property
    def data(self) -> bytes:
        return b"".join(each.data for each in self.of(FilePiece))


def write(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def ask(files: Files, command: Command) -> None:
    files.handlers()[type(command)](command)


def served(files: Files) -> None:
    """Let it do all that it can do now."""
    while files.is_ready:
        files.send_next()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def files(told: Told) -> Files:
    return Files(told)


# ---- when it comes
@pytest.mark.parametrize("late_job", [project_job, delivery_job, gathering_job])
def test_a_job_handles_all_that_is_kept_for_it_until_it_is_made(late_job: Callable[[Link], LateJob]) -> None:
    job = late_job(Told())

    assert job.handlers().keys() == job.made().handlers().keys()


# ---- listing
def test_files_are_listed_below_the_names_alone(tmp_path: Path, files: Files, told: Told) -> None:
    write(tmp_path / "checkpoints" / "deep" / "a", b"123")
    write(tmp_path / "export.keras", b"12")
    write(tmp_path / "other" / "b")
    os.utime(tmp_path / "export.keras", ns=(5, 1_700_000_000_123_456_789))
    ask(files, ListFiles(7, str(tmp_path), ["checkpoints", "export.keras", "not there"]))
    served(files)

    (listed,) = told.of(FilesListed)
    assert [path for path, _, _ in listed.files] == ["checkpoints/deep/a", "export.keras"]
    assert listed.files[1] == ("export.keras", 2, 1_700_000_000_123_456_789)
    assert isinstance(told.messages[-1], FilesListEnded)
    assert {each.number for each in told.messages} == {7}


def test_a_dot_stands_for_all_that_is_there(tmp_path: Path, files: Files, told: Told) -> None:
    write(tmp_path / "a" / "b")
    write(tmp_path / "c")
    ask(files, ListFiles(7, str(tmp_path), ["."]))
    ask(files, ListFiles(8, str(tmp_path / "not there"), ["."]))
    served(files)

    listed = {each.number: each.files for each in told.of(FilesListed)}
    assert [path for path, _, _ in listed[7]] == ["a/b", "c"]
    assert listed[8] == []


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_is_listed_and_opened(tmp_path: Path, name: str) -> None:
    write(tmp_path / "top" / name / name, b"123")

    (file,) = [what for kind, what in walk(str(tmp_path), ["top"]) if kind == "files"]
    fd = open_below(str(tmp_path), file[0], os.O_RDONLY)
    assert file[0] == f"top/{name}/{name}"
    assert os.read(fd, 9) == b"123"
    os.close(fd)


def test_a_tree_deeper_than_a_path_may_be_long_is_listed_and_opened(tmp_path: Path) -> None:
    names = ["n" * 200] * 100
    directory = os.open(tmp_path, os.O_RDONLY)
    for name in names:
        os.mkdir(name, dir_fd=directory)
        deeper = os.open(name, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
    os.close(directory)

    path = "/".join([*names, "file"])
    assert [what[0] for kind, what in walk(str(tmp_path), names[:1]) if kind == "files"] == [path]
    os.close(open_below(str(tmp_path), path, os.O_RDONLY))


def test_what_is_no_regular_file_is_not_listed_as_one(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    os.mkfifo(tmp_path / "top" / "fifo")
    (tmp_path / "top" / "link").symlink_to("/etc/passwd")
    (tmp_path / "top" / "directory").symlink_to("/etc")
    (tmp_path / "linked").symlink_to("/etc")

    found = list(walk(str(tmp_path), ["top", "linked", "linked/passwd"]))
    assert [each for each in found if each[0] == "files"] == []
    assert [what for kind, what in found if kind == "links"] == ["top/directory", "top/link", "linked"]


@pytest.mark.usefixtures("ordinary_user")
def test_what_cannot_be_read_is_told() -> None:
    with tempfile.TemporaryDirectory() as root:
        closed = Path(root, "top", "closed")
        closed.mkdir(parents=True)
        closed.chmod(0)
        (closed.parent / "file").touch(mode=0)

        found = list(walk(root, ["top"]))
        assert [kind for kind, _ in found] == ["directories", "unreadable", "unreadable"]
        assert found[1:] == [("unreadable", (path, "Permission denied")) for path in ("top/closed", "top/file")]


def test_a_long_list_is_told_in_parts(tmp_path: Path, files: Files, told: Told) -> None:
    for number in range(2 * BATCH):
        write(tmp_path / "top" / str(number))
    ask(files, ListFiles(1, str(tmp_path), ["top"]))
    served(files)

    parts = [len(each.files) for each in told.of(FilesListed)]
    assert sum(parts) == 2 * BATCH
    assert max(parts) <= BATCH


def test_a_list_need_not_wait_for_files_that_are_under_way(tmp_path: Path, files: Files, told: Told) -> None:
    write(tmp_path / "large", bytes(4 * PIECE))
    ask(files, SendFile(1, str(tmp_path), "large", 1 << 40, 0, ""))
    files.send_next()
    ask(files, ListFiles(2, str(tmp_path), ["large"]))
    files.send_next()

    assert told.of(FilesListEnded)[0].number == 2
    assert not told.of(FileSent)


# ---- sending
@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_a_file_is_sent_whole_and_with_its_hash(tmp_path: Path, files: Files, told: Told, size: int) -> None:
    content = os.urandom(size)
    mtime = write(tmp_path / "file", content).stat().st_mtime_ns
    ask(files, SendFile(3, str(tmp_path), "file", 1 << 40, 0, ""))
    served(files)

    assert told.data == content
    assert told.of(FileSent) == [FileSent(3, size, sha256(content), mtime, unchanged=True)]


def test_only_what_is_missing_is_sent(tmp_path: Path, files: Files, told: Told) -> None:
    content = os.urandom(2 * PIECE)
    write(tmp_path / "file", content)
    ask(files, SendFile(3, str(tmp_path), "file", 1 << 40, PIECE + 7, sha256(content[: PIECE + 7])))
    served(files)

    assert told.data == content[PIECE + 7 :]
    assert told.of(FilePiece)[0].offset == PIECE + 7
    assert told.of(FileSent)[0].sha256 == sha256(content)


@pytest.mark.parametrize(("offset", "known"), [(5, b"other"), (100, bytes(100))])
def test_a_file_that_does_not_begin_as_expected_is_sent_from_its_beginning(
    tmp_path: Path, files: Files, told: Told, offset: int, known: bytes
) -> None:
    write(tmp_path / "file", b"content")
    ask(files, SendFile(3, str(tmp_path), "file", 1 << 40, offset, sha256(known)))
    served(files)

    assert told.data == b"content"
    assert told.of(FilePiece)[0].offset == 0


def test_a_file_that_is_written_to_while_it_is_sent_says_so(tmp_path: Path, files: Files, told: Told) -> None:
    path = write(tmp_path / "file", bytes(2 * PIECE))
    ask(files, SendFile(3, str(tmp_path), "file", 1 << 40, 0, ""))
    files.send_next()
    os.truncate(path, PIECE)
    served(files)

    assert told.of(FileSent)[0].unchanged is False


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../secret", "top/../../secret", "top//file", "top/./file", "", "link", "up/secret", "a\0b"]
)
def test_nothing_outside_of_the_root_is_sent(tmp_path: Path, files: Files, told: Told, path: str) -> None:
    write(tmp_path / "secret")
    write(tmp_path / "root" / "top" / "file")
    (tmp_path / "root" / "link").symlink_to("../secret")
    (tmp_path / "root" / "up").symlink_to("..")
    ask(files, SendFile(3, str(tmp_path / "root"), path, 1 << 40, 0, ""))
    served(files)

    assert list(map(type, told.messages)) == [FilesFailed]


@pytest.mark.parametrize("name", ["fifo", "directory", "/dev/zero"])
def test_what_is_no_regular_file_is_not_sent(tmp_path: Path, files: Files, told: Told, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    root, _, path = f"{tmp_path}/{name}".rpartition("/") if not name.startswith("/") else name.rpartition("/")
    ask(files, SendFile(3, root, path, 1 << 40, 0, ""))
    served(files)

    assert [each.reason for each in told.of(FilesFailed)] == ["no regular file any more"]


def test_what_nobody_waits_for_is_not_sent(tmp_path: Path, files: Files, told: Told) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    write(tmp_path / "file", bytes(4 * PIECE))
    ask(files, SendFile(1, str(tmp_path), "file", 1 << 40, 0, ""))
    ask(files, SendFile(2, str(tmp_path), "file", 1 << 40, 0, ""))
    files.send_next()
    ask(files, ForgetFiles())

    assert not files.is_ready
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert len(told.messages) == 1


# ---- the window
def test_no_more_than_the_window_is_on_its_way(tmp_path: Path, files: Files, told: Told) -> None:
    write(tmp_path / "file", bytes(2 * FIRST))
    ask(files, SendFile(1, str(tmp_path), "file", 1 << 40, 0, ""))
    served(files)
    before = len(told.data)
    ask(files, FilesArrived(PIECE))
    served(files)

    assert before == FIRST
    assert len(told.data) > before


@pytest.mark.parametrize("content", [b"longer than it was", b"12345"])
def test_no_more_of_a_file_is_sent_than_is_asked_for(tmp_path: Path, files: Files, told: Told, content: bytes) -> None:
    write(tmp_path / "file", content)
    ask(files, SendFile(3, str(tmp_path), "file", 5, 0, ""))
    served(files)

    assert told.data == content[:5]
    sent = told.of(FileSent)[0]
    assert (sent.size, sent.sha256, sent.unchanged) == (5, sha256(content[:5]), len(content) == 5)
