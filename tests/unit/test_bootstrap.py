"""The bootstrap that brings the Keras fix into workers, in real Python processes with a stand-in for Keras."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.run.host_contexts import KERAS_FIX, Names, support_files

BOOTSTRAP = Path(__file__).resolve().parents[2] / "launcher" / "on_host" / "bootstrap"
GANG = json.dumps({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}})
ALONE = json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})
FIX = "import sys\n\ndef enable():\n    print('fixed', sys.modules['keras'].finished)\n"
REPORTS = FIX.replace("fixed", "reports")
NOTHING = "def enable():\n    pass\n"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A directory on the path of the worker, with a package `keras` in it."""
    directory = tmp_path / "site with blanks"
    (directory / "keras").mkdir(parents=True)
    (directory / "keras" / "__init__.py").write_text("from keras import inner\nfinished = True\n")
    (directory / "keras" / "inner.py").write_text("")
    return directory


def python(
    packages: Path, code: str, fix: str | Path | None = FIX, progress: str = REPORTS, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a worker's code as the launcher would have it run."""
    if isinstance(fix, str):
        fix = package(packages / "the fix", enabling=fix, stall=NOTHING, progress=progress)
    named = {} if fix is None else {"LAUNCH_KERAS_FIX": str(fix)}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TF_", "LAUNCH_"))}
    path_variable = os.pathsep.join(map(str, (BOOTSTRAP, packages)))
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "PYTHONPATH": path_variable, "PYTHONDONTWRITEBYTECODE": "1", "TF_CONFIG": GANG, **named, **env},
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
    )


def package(directory: Path, **chapters: str) -> Path:
    """A package with these modules."""
    directory.mkdir()
    for name, text in {"__init__": "", **chapters}.items():
        (directory / f"{name}.py").write_text(text)
    return directory


def printed(process: subprocess.CompletedProcess[str]) -> list[str]:
    """What a worker printed that ended well and complained of nothing."""
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout.splitlines()


@pytest.mark.parametrize("statement", ["import keras", "from keras import inner", "import keras.inner as inner"])
def test_the_fix_is_enabled_once_keras_is_wholly_imported(packages: Path, statement: str) -> None:
    code = f"print('before'); {statement}; print('after'); {statement}"
    assert printed(python(packages, code)) == ["before", "fixed True", "after"]


def test_a_look_for_keras_before_its_import_does_not_lose_the_fix(packages: Path) -> None:
    code = "import importlib.util as u; print(u.find_spec('keras').name); import keras"
    assert printed(python(packages, code)) == ["keras", "fixed True"]


def test_keras_looks_as_if_nobody_had_watched(packages: Path) -> None:
    code = (
        "import keras, sys; from importlib.machinery import SourceFileLoader as L;"
        "print(type(keras.__loader__) is L, vars(keras.__loader__).keys() == {'name', 'path'}, keras.__spec__.origin);"
        "print([f for f in sys.meta_path if 'Watch' in repr(f)], [p for p in sys.path if 'bootstrap' in p])"
    )
    assert printed(python(packages, code))[1:] == [f"True True {packages / 'keras' / '__init__.py'}", "[] []"]


def test_an_import_of_keras_that_fails_fails_as_ever_and_may_be_tried_again(packages: Path) -> None:
    (packages / "keras" / "__init__.py").write_text("import os\nif 'BAD' in os.environ: 1 / 0\nfinished = True\n")
    code = (
        "import os\ntry:\n import keras\nexcept ZeroDivisionError: print('failed')\ndel os.environ['BAD']\nimport keras"
    )
    assert printed(python(packages, code, BAD="1")) == ["failed", "fixed True"]


def test_no_keras_is_reported_as_ever(packages: Path) -> None:
    (packages / "keras" / "__init__.py").rename(packages / "keras" / "none")
    (packages / "keras" / "inner.py").unlink()
    (packages / "keras").rename(packages / "gone")
    process = python(packages, "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]; import keras")
    assert process.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'keras'"


@pytest.mark.parametrize(
    "env",
    [
        {"TF_CONFIG": "{not json"},
        {"TF_CONFIG": "[]"},
        {"TF_CONFIG": ""},
        {"TF_USE_LEGACY_KERAS": "1"},
    ],
)
def test_keras_is_left_alone_without_a_cluster_and_where_legacy_keras_is_wanted(
    packages: Path, env: dict[str, str]
) -> None:
    assert printed(python(packages, "import keras; print('done')", **env)) == ["done"]


@pytest.mark.parametrize("config", [GANG, ALONE])
def test_keras_is_fixed_and_progress_reported_with_any_number_of_workers(packages: Path, config: str) -> None:
    said = printed(python(packages, "import keras", LAUNCH_PROGRESS="a file", TF_CONFIG=config))
    assert said == ["fixed True", "reports True"]


def test_progress_is_reported_without_a_cluster(packages: Path) -> None:
    assert printed(python(packages, "import keras", LAUNCH_PROGRESS="a file", TF_CONFIG="")) == ["reports True"]


def test_reports_that_fail_are_said_in_one_line_and_the_fix_is_enabled(packages: Path) -> None:
    process = python(packages, "import keras", progress="1 / 0", LAUNCH_PROGRESS="a file")
    assert (process.returncode, process.stdout) == (0, "fixed True\n")
    [line] = process.stderr.splitlines()
    assert line == "tf-launch: no reports of progress: ZeroDivisionError: division by zero"


def test_all_that_is_loaded_travels_to_a_host() -> None:
    bootstrap = {f"support-0/{path.name}" for path in BOOTSTRAP.glob("*.py")}
    fix = {f"support-0/keras_fix/{path.name}" for path in KERAS_FIX.glob("*.py")}
    assert set(support_files(Names("run", "support-0"), fix_keras=True, training=False)) == bootstrap | fix
    assert set(support_files(Names("run", "support-0"), fix_keras=False, training=False)) == bootstrap


@pytest.mark.parametrize("env", [{}, {"LAUNCH_KERAS_FIX": "0"}, {"LAUNCH_KERAS_FIX": "Off"}])
def test_nothing_is_watched_without_a_fix_or_when_it_is_off(packages: Path, env: dict[str, str]) -> None:
    code = "import sys; print([f for f in sys.meta_path if 'Watch' in repr(f)])"
    assert printed(python(packages, code, fix=None, LAUNCH_PROGRESS="a file", **env)) == ["[]"]


def test_a_missing_fix_is_said_in_one_line_and_the_program_goes_on(packages: Path) -> None:
    process = python(packages, "import keras; print('done')", fix=packages / "none")
    assert (process.returncode, process.stdout) == (0, "done\n")
    [line] = process.stderr.splitlines()
    assert line.startswith("tf-launch: ")
    assert str(packages / "none") in line


@pytest.mark.parametrize("fix", ["def enable():\n    raise RuntimeError('two\\nlines')\n", "not python", ""])
def test_a_fix_that_fails_is_said_in_one_line_and_the_program_goes_on(packages: Path, fix: str) -> None:
    process = python(packages, "import keras; print('done')", fix=fix)
    assert (process.returncode, process.stdout) == (0, "done\n")
    assert [line.startswith("tf-launch: ") for line in process.stderr.splitlines()] == [True]


def test_a_sitecustomize_that_was_there_runs_as_without_us(packages: Path) -> None:
    (packages / "sitecustomize.py").write_text("import sys\nmark = __name__, __file__\nsys.flag = 1\n")
    code = "import sitecustomize as s, sys; print(*s.mark, sys.flag); import keras"
    expected = [f"sitecustomize {packages / 'sitecustomize.py'} 1", "fixed True"]
    assert printed(python(packages, code)) == expected


def test_an_error_in_a_sitecustomize_that_was_there_is_reported_as_without_us(packages: Path) -> None:
    (packages / "sitecustomize.py").write_text("import a_module_that_is_missing\n")
    process = python(packages, "import keras")
    assert (process.returncode, process.stdout) == (0, "fixed True\n")
    assert "Error in sitecustomize" in process.stderr
    assert "a_module_that_is_missing" in process.stderr


def test_without_another_sitecustomize_nothing_is_said(packages: Path) -> None:
    assert printed(python(packages, "print('done')")) == ["done"]


def test_a_child_process_gets_the_fix_as_well(packages: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import keras'], check=True)"
    assert printed(python(packages, code)) == ["fixed True"]


def test_a_program_without_keras_loads_no_module_for_our_sake(packages: Path) -> None:
    code = "import sys; print(*sorted(sys.modules))"
    with_us = set(printed(python(packages, code))[0].split())
    without_us = set(printed(python(packages, code, fix=None, PYTHONPATH=str(packages)))[0].split())
    assert with_us - without_us <= {"sitecustomize"}


def test_a_program_that_removes_its_cluster_before_it_imports_keras_gets_the_fix(packages: Path) -> None:
    """TensorFlow's tutorial does, and sets a cluster of its own once TensorFlow, and so Keras, has been imported."""
    code = "import os; del os.environ['TF_CONFIG']; import keras"
    assert printed(python(packages, code)) == ["fixed True"]


def test_a_child_that_is_given_no_cluster_gets_the_fix_for_one_that_it_may_set_later(packages: Path) -> None:
    assert printed(python(packages, "import keras", TF_CONFIG="", LAUNCH_TF_CONFIG=GANG)) == ["fixed True"]
