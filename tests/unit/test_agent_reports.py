"""The newest report of a worker, whatever a program makes of the file that LAUNCH_PROGRESS names."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from launcher.cluster.spec import Task
from launcher.hosts.events import ProgressMade
from launcher.on_host.agent.reports import LONGEST, TAIL, Reports
from launcher.run.attempt.step_watch import StepWatch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "progress"


@pytest.fixture
def reports(path: Path) -> Reports:
    return Reports(str(path))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_each_new_line_is_told_once(path: Path, reports: Reports) -> None:
    assert reports.newest() == b""
    for line in (b"one", b"two"):
        append(path, line + b"\n")
        assert (reports.newest(), reports.newest()) == (line, b"")


def test_of_several_new_lines_the_last_one_is_told(path: Path, reports: Reports) -> None:
    append(path, b"one\ntwo\nthree\n")

    assert reports.newest() == b"three"


def test_a_line_is_told_once_it_is_whole(path: Path, reports: Reports) -> None:
    append(path, b"one\ntw")
    assert reports.newest() == b"one"
    append(path, b"o")
    assert reports.newest() == b""
    append(path, b"\n")
    assert reports.newest() == b"two"


@pytest.mark.parametrize("how", ["truncated", "deleted", "replaced"])
@pytest.mark.parametrize("line", [b"1", b"other", b"a much longer one than before"])
def test_a_file_that_begins_anew_is_read_from_its_beginning(
    path: Path, reports: Reports, how: str, line: bytes
) -> None:
    append(path, b"first\nagain\n")
    assert reports.newest() == b"again"
    if how == "truncated":
        os.truncate(path, 0)
    else:
        path.unlink()
    if how != "replaced":
        assert reports.newest() == b""
    append(path, line + b"\n")

    assert reports.newest() == line


def test_a_program_may_write_its_only_line_again_and_again(path: Path, reports: Reports) -> None:
    for step in (8, 9, 11, 12):
        path.write_bytes(b'{"step": %d}\n' % step)
        os.utime(path, ns=(step, step))
        assert reports.newest() == b'{"step": %d}' % step


def test_the_count_only_grows(path: Path, reports: Reports) -> None:
    counts = []
    for line in (b"long enough\n", b"x\n", b"y\n"):
        path.write_bytes(line)
        os.utime(path, ns=(len(counts), len(counts)))
        reports.newest()
        counts.append(reports.count)

    assert 0 < counts[0] < counts[1] < counts[2]


# ---- what is no file of lines
def test_a_pipe_is_not_read_and_nobody_waits_for_it(path: Path, reports: Reports) -> None:
    os.mkfifo(path)
    assert reports.newest() == b""
    writer = os.open(path, os.O_RDWR)
    os.write(writer, b"line\n")

    assert reports.newest() == b""
    os.close(writer)


@pytest.mark.parametrize("target", ["elsewhere", "/dev/zero", "nowhere", "progress"])
def test_a_link_is_not_followed(path: Path, reports: Reports, target: str) -> None:
    (path.parent / "elsewhere").write_bytes(b"line\n")
    path.symlink_to(target)

    assert reports.newest() == b""


def test_a_directory_is_no_report(path: Path, reports: Reports) -> None:
    path.mkdir()

    assert reports.newest() == b""


@pytest.mark.usefixtures("ordinary_user")
def test_a_file_that_may_not_be_read_is_no_report() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "progress")
        path.write_bytes(b"line\n")
        path.chmod(0)

        assert Reports(str(path)).newest() == b""


# ---- what is too large
@pytest.mark.parametrize("size", [150 << 20, 8 << 30])
def test_only_the_end_of_a_huge_file_is_read(path: Path, reports: Reports, size: int) -> None:
    append(path, b"first\n")
    os.truncate(path, size)
    before = read_bytes()
    assert [reports.newest() for _ in range(100)] == [b""] * 100
    append(path, b"\nlast\n")
    assert reports.newest() == b"last"

    assert read_bytes() - before < 4 * TAIL


def read_bytes() -> int:
    """How many bytes this process has read by its calls."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_line_whose_beginning_is_out_of_sight_is_no_report(path: Path, reports: Reports) -> None:
    append(path, b"x" * (2 * TAIL) + b"end\n")
    assert reports.newest() == b""
    append(path, b"next\n")

    assert reports.newest() == b"next"


def test_a_long_line_is_no_report(path: Path, reports: Reports) -> None:
    append(path, b"x" * LONGEST + b"\n")
    assert reports.newest() == b"x" * LONGEST
    append(path, b"x" * (LONGEST + 1) + b"\n")

    assert reports.newest() == b""


# ---- what is no report of ours
@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"\0" * LONGEST, b"[" * LONGEST, b'{"step":' * 500, b"\xff", b'{"step": 1e999}', b'{"step": [1]}', b"9"),
        *(b"[]", b"{}", b'{"step": "many"}', b'{"step": null}'),
    ],
)
def test_any_line_counts_as_a_sign_of_life_without_a_number(line: bytes) -> None:
    report = ProgressMade("localhost", Task("worker", 0), line)

    assert report.step is None
    assert StepWatch(None).note(report, 1.0) is None
