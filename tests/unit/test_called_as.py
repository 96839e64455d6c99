"""Messages name the command as it can be typed where the user is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from launcher.caller.called_as import launch_command


@pytest.mark.parametrize(
    ("program", "typed"),
    [
        ("scripts/launch", "scripts/launch"),
        ("{here}/scripts/launch", "scripts/launch"),
        ("{here}/launch", "./launch"),
        ("launch", "./launch"),
        ("../other place/launch", "'../other place/launch'"),
        ("/opt/launch", "/opt/launch"),
        ("{here}/bin/launch", "launch"),
    ],
)
def test_a_command_is_shown_as_short_as_it_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, typed: str
) -> None:
    on_path = tmp_path / "bin" / "launch"
    on_path.parent.mkdir()
    on_path.touch(mode=0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setattr(sys, "argv", [program.format(here=tmp_path)])

    assert launch_command() == typed


@pytest.mark.parametrize(
    ("original", "typed"),
    [
        (["/venv/bin/python", "-m", "launcher", "collect"], "/venv/bin/python -m launcher"),
        (["/venv/bin/python", "-I", "/src/launcher/__main__.py"], "/venv/bin/python /src/launcher/__main__.py"),
    ],
)
def test_a_module_is_shown_with_its_python(monkeypatch: pytest.MonkeyPatch, original: list[str], typed: str) -> None:
    monkeypatch.setattr(sys, "argv", ["/src/launcher/__main__.py"])
    monkeypatch.setattr(sys, "orig_argv", original)

    assert launch_command() == typed
