"""What a run's last line says of the chief's files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from launcher.run_directory.chief_files import kept_line, newest_step, summary


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))


def test_files_are_counted_by_what_lies_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path, size in {"chief/checkpoints/a": 1, "chief/checkpoints/deep/b": 2, "chief/model.txt": 3}.items():
        write(tmp_path / path, size)

    assert (
        kept_line(tmp_path / "chief")
        == "the chief's files, in chief: checkpoints (2 files, 3 B), model.txt (1 file, 3 B)"
    )


def test_where_nothing_is_nothing_is_said(tmp_path: Path) -> None:
    assert kept_line(tmp_path) is None
    assert kept_line(tmp_path / "not there") is None


def test_many_files_make_a_short_line() -> None:
    line = summary({f"sample-{number}.png": 100 for number in range(500)})

    assert line.endswith("sample-102.png (1 file, 100 B), 494 more (494 files, 49.4 kB)")


def test_one_more_than_are_named_is_named(tmp_path: Path) -> None:
    assert "more" not in summary(dict.fromkeys("abcdefg", 1))


def test_a_name_of_any_characters_stays_on_its_line() -> None:
    assert summary({"a\nb/c": 1}) == "'a\\nb' (1 file, 1 B)"


def test_the_newest_step_is_the_highest_number(tmp_path: Path) -> None:
    for name in ("step-9.index", "deep/step-10.index", "step-11.data-00000-of-00001", "x.index"):
        write(tmp_path / name, 1)

    assert newest_step(tmp_path) == 10


@pytest.mark.usefixtures("ordinary_user")
def test_what_cannot_be_read_is_told_and_hides_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as place:  # tmp_path cannot be entered by an ordinary user
        monkeypatch.chdir(place)
        chief = Path(place, "chief")
        write(chief / "step-1.index", 1)
        for name in "abcdefgh":
            write(chief / name / "step-9.index", 1)
            (chief / name).chmod(0)

        assert newest_step(chief) == 1
        told = kept_line(chief)
        assert told is not None
        assert told.startswith("the chief's files, in chief: step-1.index (1 file, 1 B); cannot be read: a (Permission")
        assert told.endswith("f (Permission denied) and 2 more")
        chief.chmod(0)

        assert newest_step(chief) is None
        assert kept_line(chief) == "the chief's files, in chief: cannot be read: . (Permission denied)"
        for path in (chief, *(chief / name for name in "abcdefgh")):
            path.chmod(0o700)


def test_a_number_without_end_is_no_step(tmp_path: Path) -> None:
    write(tmp_path / "step-7.index", 1)
    write(tmp_path / f"step-{'9' * 240}.index", 1)

    assert newest_step(tmp_path) == 7
