"""scripts/launch and scripts/test set `.venv` up once, and never take a half-made one for a whole one.

The real scripts, venv and pip, in a checkout without dependencies, whose build can be made to wait.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tf-launch"
version = "0"
"""
BACKEND = '''
import os
import zipfile


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Tell that the build has begun, and wait to be let on, where the test made the two pipes for it."""
    if os.path.exists("begun"):
        with open("begun", "w") as begun:
            begun.write("yes")
        with open("go on") as go_on:
            go_on.read()
    name = "tf_launch-0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        wheel.writestr("tf_launch-0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tf-launch\\nVersion: 0\\n")
        wheel.writestr("tf_launch-0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("tf_launch-0.dist-info/RECORD", "")
    return name
'''
PROGRAM = """
import os, sys
print(os.getcwd(), sys.prefix, *sys.argv[1:], sep="\\n")
sys.exit(7)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose path is not kind to shell scripts, not yet set up."""
    root = tmp_path / "a 'check' $out"
    shutil.copytree(SCRIPTS, root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in {
        "pyproject.toml": PYPROJECT,
        "backend.py": BACKEND,
        "launcher/__main__.py": PROGRAM,
        "constraints.txt": "",
        "constraints-test.txt": "",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


def start(script: Path, *arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.Popen[str]:
    """Start a script as a shell would, in a process group of its own."""
    return subprocess.Popen(
        [script, *arguments],
        cwd=cwd,
        env=os.environ | {"PIP_NO_INDEX": "1"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def launch(checkout: Path, *arguments: str, cwd: Path | None = None) -> tuple[int, list[str], str]:
    """Run scripts/launch: its exit code, the lines of its output, its errors."""
    with start(checkout / "scripts/launch", *arguments, cwd=cwd) as process:
        output, errors = process.communicate()
    return process.returncode, output.splitlines(), errors


@contextmanager
def building(checkout: Path) -> Iterator[subprocess.Popen[str]]:
    """Run scripts/launch until pip builds the project, and hold it there."""
    for name in ("begun", "go on"):
        os.mkfifo(checkout / name)
    with start(checkout / "scripts/launch") as process:
        assert (checkout / "begun").read_text() == "yes"
        (checkout / "begun").unlink()
        yield process


def installs(checkout: Path) -> int:
    """How often pip has finished in the `.venv` that stands."""
    return (checkout / ".venv/set-up.log").read_text().count("Successfully installed tf-launch")


def test_first_run_sets_up_then_runs_the_program_in_the_callers_directory(checkout: Path, tmp_path: Path) -> None:
    link = tmp_path / "link to launch"
    link.symlink_to(checkout / "scripts/launch")

    with start(link, "--flag", "two words", "", cwd=tmp_path) as process:
        output, errors = process.communicate()

    assert output.splitlines() == [str(tmp_path), str(checkout / ".venv"), "--flag", "two words", ""], errors
    assert process.returncode == 7


def test_second_run_installs_nothing_and_says_nothing(checkout: Path) -> None:
    launch(checkout)
    before = (checkout / ".venv/set-up.log").stat()

    code, _, errors = launch(checkout)

    assert (code, errors) == (7, "")
    assert (checkout / ".venv/set-up.log").stat() == before


def test_two_first_runs_install_once(checkout: Path) -> None:
    with start(checkout / "scripts/launch") as one, start(checkout / "scripts/launch") as two:
        one.communicate()
        two.communicate()

    assert (one.returncode, two.returncode) == (7, 7)
    assert installs(checkout) == 1


def test_changed_pins_are_installed(checkout: Path) -> None:
    launch(checkout)
    (checkout / "constraints.txt").write_text("# changed\n")

    launch(checkout)

    assert installs(checkout) == 2


def test_moved_checkout_is_set_up_anew(checkout: Path, tmp_path: Path) -> None:
    launch(checkout)
    moved = checkout.rename(tmp_path / "moved")

    code, output, errors = launch(moved)

    assert (code, output[1]) == (7, str(moved / ".venv")), errors
    assert str(checkout) not in (moved / ".venv/pyvenv.cfg").read_text()


def test_interrupt_stops_pip_and_the_next_run_starts_over(checkout: Path) -> None:
    with building(checkout) as process:
        os.killpg(process.pid, signal.SIGINT)
        # Everybody who holds the pipes is gone when this returns.
        process.communicate()
    assert process.returncode == 130

    assert launch(checkout)[0] == 7
    assert installs(checkout) == 1


def test_killed_set_up_is_waited_for_and_not_taken_for_a_finished_one(checkout: Path) -> None:
    with building(checkout) as process:
        process.kill()

    with start(checkout / "scripts/launch") as process:
        assert process.stderr
        assert "waiting for it" in process.stderr.readline()
        (checkout / "go on").write_text("")
        _, errors = process.communicate()

    assert "first run" in errors
    assert (process.returncode, installs(checkout)) == (7, 1)


def test_failed_install_shows_why_and_leaves_what_worked(checkout: Path) -> None:
    launch(checkout)
    pins = checkout / "constraints.txt"
    pins.write_text("no-such-package==1 --hash=sha256:" + "0" * 64)

    code, output, errors = launch(checkout)

    assert (code, output) == (3, [])
    assert "No matching distribution found for no-such-package==1" in errors
    assert str(checkout / ".venv/set-up.log") in errors
    pins.write_text("")
    assert launch(checkout)[::2] == (7, "")


def test_foreign_venv_is_left_alone(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv/precious").touch()

    code, _, errors = launch(checkout)

    assert code == 3
    assert "remove it, or move it away" in errors
    assert (checkout / ".venv/precious").exists()


def test_without_a_fitting_python_the_message_names_the_versions(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cksum"):
        (tools / name).symlink_to(str(shutil.which(name)))

    with start(checkout / "scripts/launch", PATH=str(tools)) as process:
        _, errors = process.communicate()

    assert process.returncode == 3
    assert "no Python 3.11, 3.12 or 3.13 found" in errors


def test_arguments_of_scripts_test_go_to_pytest(checkout: Path) -> None:
    """Only the way there: this checkout has no pytest."""
    with start(checkout / "scripts/test", "-k", "x") as process:
        _, errors = process.communicate()

    assert errors.splitlines()[-1].endswith("No module named pytest")
    assert sys.prefix not in errors
