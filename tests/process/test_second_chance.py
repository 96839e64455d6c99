"""On CI, tests that fail run once more, alone: what passes then is named as FLAKY, and what fails again fails.

The real script and pytest, over a file of tests of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.launching import ROOT

TESTS = """
from pathlib import Path

import pytest

TRIED = Path(__file__).with_name("tried")


def test_passes():
    pass


@pytest.mark.parametrize("name", ["with spaces [and brackets]"])
def test_fails_once(name):
    tried = TRIED.exists()
    TRIED.touch()
    assert tried


def test_is_alone_in_a_fresh_process(worker_id):
    assert worker_id == "master"
"""
FLAKY = [
    "FLAKY tests/test_some.py::test_fails_once[with spaces [and brackets]]: "
    "failed at first, and passed when it ran once more, alone",
    "FLAKY tests/test_some.py::test_is_alone_in_a_fresh_process: "
    "failed at first, and passed when it ran once more, alone",
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("run_tests.py", "changed_tests.py"):
        (tmp_path / "scripts").mkdir(exist_ok=True)
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_some.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    return tmp_path


def run(checkout: Path, ci: str) -> tuple[int, str]:
    """The exit code of the tests in a process beside pytest's own, and all that was said."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")} | {"CI": ci}
    words = [sys.executable, checkout / "scripts/run_tests.py", "--numprocesses", "1", "tests"]
    done = subprocess.run(words, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


def test_what_passes_alone_is_named_and_the_exit_code_is_0(checkout: Path) -> None:
    code, said = run(checkout, "true")

    assert code == 0, said
    assert sorted(line for line in said.splitlines() if line.startswith("FLAKY")) == FLAKY


def test_what_fails_again_fails_and_what_does_not_is_named(checkout: Path) -> None:
    with (checkout / "tests/test_some.py").open("a") as tests:
        tests.write("\n\ndef test_fails():\n    raise ValueError\n")
    code, said = run(checkout, "true")

    assert code == 1, said
    assert sorted(line for line in said.splitlines() if line.startswith("FLAKY")) == FLAKY


def test_a_file_that_cannot_be_read_fails(checkout: Path) -> None:
    (checkout / "tests/test_some.py").write_text("import nothing_of_that_name")

    assert run(checkout, "true")[0] != 0


def test_locally_a_failure_is_a_failure(checkout: Path) -> None:
    code, said = run(checkout, "")

    assert code == 1
    assert "once more" not in said
