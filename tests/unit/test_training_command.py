"""`python -m training`: what it answers before TensorFlow is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
UNREACHABLE = "import sys; sys.modules['tensorflow'] = sys.modules['keras'] = None; "


def without_tensorflow(*arguments: str, tf_config: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process where any import of TensorFlow or Keras fails."""
    program = f"{UNREACHABLE}sys.argv[1:] = {list(arguments)!r}; from training.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env=os.environ | {"TF_CONFIG": tf_config},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_needs_no_tensorflow() -> None:
    done = without_tensorflow("--help")
    assert done.returncode == 0
    assert "--global-batch-size" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--epoch", "3"], "--epoch"),
        (["--epochs", "many"], "--epochs"),
        (["--model", "mnist"], "digits_cnn"),
        (["--batch-size", "0"], "--batch-size"),
        (["--batch-size", "8", "--global-batch-size", "8"], "not both"),
        (["stray"], "stray"),
    ],
)
def test_a_wrong_option_is_a_plain_message_and_exit_code_2(arguments: list[str], named: str, tmp_path: Path) -> None:
    done = without_tensorflow(*arguments, "--output-dir", str(tmp_path / "out"))
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_evaluator_ends_with_exit_code_2_and_the_reason() -> None:
    cluster = {"worker": ["a:1"], "evaluator": ["b:1"]}
    done = without_tensorflow(tf_config=json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}}))
    assert done.returncode == 2
    assert done.stderr.startswith("error: TF_CONFIG says this is evaluator 0")


def test_an_output_directory_that_cannot_be_written_ends_the_run_with_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = without_tensorflow("--output-dir", str(tmp_path / "file"))
    assert done.returncode == 2
    assert f"{tmp_path / 'file'} cannot be written to" in done.stderr


def test_a_keras_that_is_too_old_is_named_with_the_python_that_has_it() -> None:
    found = "import importlib.metadata as m; m.version = lambda name: '3.5.0'; "
    program = f"{UNREACHABLE}{found}sys.argv[1:] = []; from training.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env=os.environ | {"TF_CONFIG": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert f"{sys.executable} has Keras 3.5.0: {sys.executable} -m pip install 'keras>=3.12'" in done.stderr
