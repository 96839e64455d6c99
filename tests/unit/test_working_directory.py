"""The directory in which `launch` was called is asked for once."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.caller import working_directory as module
from launcher.caller.working_directory import remember_working_directory, working_directory
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.whole_files import relative


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which a test is, to be removed."""
    monkeypatch.setattr(module, "_remembered", [])
    path = tmp_path / "place"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


def test_it_stays_what_it_was_when_it_has_gone(place: Path) -> None:
    remember_working_directory()
    place.rmdir()

    assert working_directory() == str(place)
    assert relative(place / "runs" / "a") == "runs/a"
    assert RunDirectory(place / "runs" / "a").as_argument == "a"


def test_without_it_paths_are_shown_whole(place: Path) -> None:
    place.rmdir()

    assert relative(place / "runs" / "a") == f"{place}/runs/a"
    with pytest.raises(OSError, match="No such file"):
        remember_working_directory()
