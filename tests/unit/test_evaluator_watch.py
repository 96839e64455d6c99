from __future__ import annotations

import os
from pathlib import Path

import pytest

from launcher.on_host.agent.evaluator import REST, EvaluatorWatch, newest_checkpoint, was_read


def checkpoint(path: Path, at: int = 1_000_000_000) -> Path:
    """A file that was written at a time in seconds since 1970, and not read since."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("content")
    os.utime(path, (at, at))
    return path


@pytest.fixture
def keeps_times_of_access(tmp_path: Path) -> None:
    if os.statvfs(tmp_path).f_flag & os.ST_NOATIME:
        pytest.skip(f"{tmp_path} is mounted with noatime: let --basetemp name another directory")


@pytest.mark.parametrize("name", ["ckpt-9.index", "model.weights.h5", "best.keras"])
def test_the_newest_checkpoint_is_what_was_written_last(tmp_path: Path, name: str) -> None:
    checkpoint(tmp_path / "run" / "ckpt-10.index", at=5)
    newest = checkpoint(tmp_path / "a" / "b" / name, at=6)
    checkpoint(tmp_path / "tensorboard" / "events.out", at=7)

    assert newest_checkpoint(str(tmp_path)) == str(newest)


@pytest.mark.usefixtures("keeps_times_of_access")
def test_a_checkpoint_was_read_once_it_was_read_after_it_was_written(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "ckpt-1.index")
    assert not was_read(str(path))

    path.read_text()
    assert was_read(str(path))


def test_where_there_is_no_checkpoint_nothing_is_asked_of_it(tmp_path: Path) -> None:
    assert newest_checkpoint(str(tmp_path / "none")) is None
    assert was_read(None)
    assert was_read(str(tmp_path / "gone.index"))


@pytest.mark.usefixtures("keeps_times_of_access")
def test_an_evaluator_is_done_when_it_has_read_the_last_checkpoint_and_rests(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "ckpt-1.index")
    nobody = 2**22 + 1  # a number that no process has: it is at rest
    watch = EvaluatorWatch("evaluator-0", nobody, str(tmp_path))

    assert [watch.is_done(0.0), watch.is_done(REST)] == [False, False]
    path.read_text()
    assert watch.is_done(REST + 1)
