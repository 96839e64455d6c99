"""Programs that are written for Keras 2: they train under `launch --keras 2`, and are told of it without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.launching import Launch

WILD = Path(__file__).parent / "scripts" / "wild"
Launched = Callable[..., Launch]


def test_a_program_for_keras_2_trains_under_keras_2(launched: Launched) -> None:
    launch = launched("--workers", "2", "--keras", "2", "--", "python", WILD / "keras2_lines.py", fresh=True)
    assert launch.succeeded()
    for task in ("worker-0", "worker-1"):
        *_, last = launch.log(task).decode().splitlines()
        assert last == "replicas 2 learned True"


def test_a_program_that_imports_keras_gets_keras_2_too(launched: Launched) -> None:
    launch = launched("--workers", "1", "--keras", "2", "--", "python", WILD / "keras2_import_keras.py", fresh=True)
    assert launch.succeeded()
    *_, last = launch.log("worker-0").decode().splitlines()
    assert last == "Keras 2 replicas 1"


@pytest.mark.parametrize(
    ("program", "line", "cause"),
    [
        ("keras2_lines.py", "lr", "AttributeError: 'SGD' object has no attribute 'lr'"),
        ("keras2_lines.py", "function", "ValueError: A KerasTensor cannot be used as input to a TensorFlow function"),
        ("keras2_import_keras.py", "", "ImportError: cannot import name 'ImageDataGenerator' from 'keras.preproces"),
    ],
)
def test_under_keras_3_it_ends_at_its_line_and_the_remedy_names_the_way(
    launched: Launched, program: str, line: str, cause: str
) -> None:
    launch = launched("--workers", "1", "--", "python", WILD / program, line)
    assert launch.wait() == 1
    assert f"worker 0 on localhost failed (exit code 1): {cause}" in launch.stderr
    assert f"({WILD / program}:" in launch.stderr
    *_, remedy = launch.stderr.splitlines()
    assert remedy.startswith("[launch] What to do: the program is written for Keras 2: `")
    assert "-m pip install tf_keras` on localhost" in remedy
    assert remedy.endswith(" --keras 2 ...`")
