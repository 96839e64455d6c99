"""scripts/launch and scripts/test set `.venv` up once, and never take a half-made one for a whole one.

The real scripts, venv and pip, in a checkout without dependencies, whose build can be made to wait.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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
    about = "tf_launch-0.dist-info/"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\\nName: tf-launch\\nVersion: 0\\n")
        wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(about + "RECORD", "")
    return name
'''
PROGRAM = """
import os, site, sys
site.main()
print(os.getcwd(), sys.prefix, *sys.argv[1:], sep="\\n")
sys.exit(7)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that is not yet set up."""
    return new_checkout(tmp_path)


class FirstRuns(NamedTuple):
    """Two first runs at once in one checkout: their exit codes, and how often pip installed."""

    root: Path
    codes: tuple[int, int]
    installs: int


@pytest.fixture(scope="module")
def first_runs(tmp_path_factory: pytest.TempPathFactory) -> FirstRuns:
    """Set a checkout up. Each virtual environment takes seconds, so most tests share this one."""
    root = new_checkout(tmp_path_factory.mktemp("ready"))
    with start(root / "scripts/launch") as one, start(root / "scripts/launch") as two:
        _, errors = one.communicate()
        two.communicate()
    assert (root / ".venv/set-up").exists(), errors
    return FirstRuns(root, (one.returncode, two.returncode), installs(root))


@pytest.fixture
def ready(first_runs: FirstRuns) -> Path:
    """The checkout after its first run, for tests that leave it ready."""
    return first_runs.root


@pytest.fixture
def changed(ready: Path, tmp_path: Path) -> Iterator[Path]:
    """The same with other pins, which the next run installs; afterwards it is ready again, whatever became of it."""
    kept = tmp_path / "kept"
    shutil.copytree(ready / ".venv", kept, symlinks=True)
    pins = ready / "constraints.txt"
    good = pins.read_text()
    pins.write_text(f"{good}# other\n")
    yield ready
    pins.write_text(good)
    for name in ("begun", "go on"):
        (ready / name).unlink(missing_ok=True)
    shutil.rmtree(ready / ".venv")
    shutil.move(kept, ready / ".venv")


def new_checkout(parent: Path) -> Path:
    """Write a checkout, at a path that is not kind to shell scripts."""
    root = parent / "a 'check' $out"
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


def test_program_runs_in_the_callers_directory_with_its_arguments_and_exit_code(ready: Path, tmp_path: Path) -> None:
    link = tmp_path / "link to launch"
    link.symlink_to(ready / "scripts/launch")

    with start(link, "--flag", "two words", "", cwd=tmp_path) as process:
        output, errors = process.communicate()

    assert output.splitlines() == [str(tmp_path), str(ready / ".venv"), "--flag", "two words", ""], errors
    assert process.returncode == 7


def test_second_run_installs_nothing_and_says_nothing(ready: Path) -> None:
    before = (ready / ".venv/set-up.log").stat()

    code, _, errors = launch(ready)

    assert (code, errors) == (7, "")
    assert (ready / ".venv/set-up.log").stat() == before


def test_two_first_runs_install_once(first_runs: FirstRuns) -> None:
    assert (first_runs.codes, first_runs.installs) == ((7, 7), 1)


def test_changed_pins_are_installed(changed: Path) -> None:
    before = installs(changed)

    launch(changed)

    assert installs(changed) == before + 1


def test_checkout_that_was_set_up_elsewhere_is_set_up_anew(ready: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(ready, moved, symlinks=True)

    code, output, errors = launch(moved)

    assert (code, output[1]) == (7, str(moved / ".venv")), errors
    assert str(ready) not in (moved / ".venv/pyvenv.cfg").read_text()


def test_interrupt_stops_pip_and_leaves_nothing_that_counts_as_ready(changed: Path) -> None:
    with building(changed) as process:
        os.killpg(process.pid, signal.SIGINT)
        # Pip holds the lock too.
        process.communicate()

    assert process.returncode == 130
    with (changed / ".venv.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not (changed / ".venv/set-up").exists()


def test_killed_set_up_is_waited_for_and_not_taken_for_a_finished_one(changed: Path) -> None:
    with building(changed) as process:
        process.kill()

    with start(changed / "scripts/launch") as process:
        assert process.stderr
        assert "waiting for it" in process.stderr.readline()
        (changed / "go on").write_text("")
        _, errors = process.communicate()

    assert "first run" in errors
    assert (process.returncode, installs(changed)) == (7, 1)


def test_failed_install_shows_why_and_leaves_what_worked(ready: Path) -> None:
    pins = ready / "constraints.txt"
    good = pins.read_text()
    pins.write_text("no-such-package==1 --hash=sha256:" + "0" * 64)

    code, output, errors = launch(ready)

    assert (code, output) == (3, [])
    assert "No matching distribution found for no-such-package==1" in errors
    assert str(ready / ".venv/set-up.log") in errors
    pins.write_text(good)
    assert launch(ready)[::2] == (7, "")


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
    for name in ("sh", "cksum", "dirname", "readlink"):
        (tools / name).symlink_to(str(shutil.which(name)))

    with start(checkout / "scripts/launch", PATH=str(tools)) as process:
        _, errors = process.communicate()

    assert process.returncode == 3
    assert "no Python 3.11, 3.12 or 3.13 found" in errors


def test_scripts_test_hands_its_arguments_to_pytest(ready: Path) -> None:
    (ready / "pytest.py").write_text("import sys; print(sys.argv[1:])")

    with start(ready / "scripts/test", "-k", "two words", CI="") as process:
        output, errors = process.communicate()

    assert output == "['-k', 'two words']\n", errors
