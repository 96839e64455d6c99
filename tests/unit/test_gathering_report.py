"""What the user is told of gathering."""

from __future__ import annotations

import errno

import pytest

from launcher.gathering.chief_directory import NoRoomError
from launcher.gathering.conversation import GivenUpError, HostAwayError
from launcher.gathering.gathered import Batch, Gathered
from launcher.gathering.record import InUseError
from launcher.gathering.remote_files import RemoteFile
from launcher.gathering.report import brought_line, gathered_line, left_line, retry_line, stays_line, trouble_lines
from launcher.run_directory.state import RunHost

HOST = RunHost("gpu-a", ("worker-0", "worker-1"), "/home/me/.tf-launch/runs/x", "/home/me/.tf-launch/runs/x/output")
FULL = OSError(errno.ENOSPC, "No space left on device", "runs/x/chief/a")


def checkpoint(prefix: str) -> Batch:
    files = (RemoteFile(f"{prefix}.data-00000-of-00001", 3_900_000, 1), RemoteFile(f"{prefix}.index", 700, 2))
    return Batch(prefix, files, is_checkpoint=True)


def test_a_checkpoint_is_one_short_line() -> None:
    assert gathered_line(checkpoint("checkpoints/step-5")) == "gathered checkpoints/step-5 (2 files, 3.9 MB)"
    assert gathered_line(checkpoint("a\nb")) == "gathered 'a\\nb' (2 files, 3.9 MB)"


@pytest.mark.parametrize(
    ("batch", "noteworthy"),
    [
        (checkpoint("checkpoints/step-5"), True),
        (checkpoint("export/saved_model/variables/variables"), False),
        (Batch("export/model.keras", ()), True),
        (Batch("checkpoints/1.weights.h5", ()), True),
        (Batch("tensorboard/events.out.tfevents.1", ()), False),
    ],
)
def test_only_what_people_wait_for_is_told(batch: Batch, noteworthy: bool) -> None:
    assert batch.is_noteworthy is noteworthy


def test_what_was_brought_is_counted() -> None:
    assert brought_line("gpu-a", Gathered()) == "nothing new on gpu-a"
    assert (
        brought_line("gpu-a", Gathered([checkpoint("a"), checkpoint("b")], received=3_900_700))
        == "brought from gpu-a: 4 files (3.9 MB had to be sent)"
    )


def test_what_stays_is_told_with_its_place() -> None:
    files = [RemoteFile("cache/a", 10, 1), RemoteFile("cache/b/c", 20, 1), RemoteFile("x.tmp", 5, 1)]

    assert (
        stays_line(HOST, files)
        == "stays on gpu-a, in /home/me/.tf-launch/runs/x/output: cache (2 files, 30 B), x.tmp (1 file, 5 B)"
    )


def test_what_was_left_is_named() -> None:
    assert (
        left_line(HOST, {"checkpoints/step-5": "its index is not there"})
        == "not brought from gpu-a, where it stays in /home/me/.tf-launch/runs/x: "
        "checkpoints/step-5 (its index is not there)"
    )


def test_what_was_left_is_named_by_the_reason() -> None:
    links = {f"link{n}": "it is a symbolic link" for n in range(9)}
    assert left_line(HOST, {**links, "closed": "Permission denied"}).endswith(
        ": link0, link1, link2, link3, link4 and 4 more (it is a symbolic link); closed (Permission denied)"
    )
    assert left_line(HOST, {str(n): f"why {n}" for n in range(9)}).endswith("; 4 (why 4) and 4 more")


@pytest.mark.parametrize(
    ("trouble", "names", "told"),
    [
        (
            HostAwayError("the link is cut"),
            ("checkpoints", "export"),
            "gpu-a is away (the link is cut): checkpoints, export and the logs of worker-0, worker-1 are not all here. "
            "What is missing stays there, in /home/me/.tf-launch/runs/x.\n  when it is back: launch collect runs/x",
        ),
        (
            GivenUpError(),
            (),
            "the logs of worker-0, worker-1 were not all brought from gpu-a. "
            "What is missing stays there, in /home/me/.tf-launch/runs/x.\n  to bring the rest: launch collect runs/x",
        ),
        (
            NoRoomError("no room in runs/x/chief for a: 5 MB are needed, 1 MB are free"),
            ("export",),
            "export and the logs of worker-0, worker-1 could not all be brought from gpu-a: no room in runs/x/chief "
            "for a: 5 MB are needed, 1 MB are free. What is missing stays there, in /home/me/.tf-launch/runs/x.\n"
            "  make room, then: launch collect runs/x",
        ),
        (
            FULL,
            ("export",),
            "export and the logs of worker-0, worker-1 could not all be brought from gpu-a: runs/x/chief/a: No space "
            "left on device. What is missing stays there, in /home/me/.tf-launch/runs/x.\n"
            "  make room, then: launch collect runs/x",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "runs/x/a"),
            (),
            "the logs of worker-0, worker-1 could not all be brought from gpu-a: runs/x/a: Read-only file system. "
            "What is missing stays there, in /home/me/.tf-launch/runs/x.\n"
            "  put that right, then: launch collect runs/x",
        ),
        (
            InUseError(),
            ("export",),
            "gpu-a: another launcher is bringing the files of this run.\n  if it fails: launch collect runs/x",
        ),
    ],
)
def test_what_is_missing_why_and_what_to_do_is_told(trouble: Exception, names: tuple[str, ...], told: str) -> None:
    assert trouble_lines(HOST, names, trouble, "launch collect runs/x") == told


def test_trouble_during_the_run_is_told_with_the_next_try() -> None:
    assert (
        retry_line("gpu-a", FULL, 60) == "files of gpu-a cannot be brought here: "
        "runs/x/chief/a: No space left on device; this is tried again every 60 s"
    )
