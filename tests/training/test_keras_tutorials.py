"""The multi-worker tutorials of tensorflow.org as a user would paste them, run as they are by `launch`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.launching import Launch

TUTORIALS = Path(__file__).parent / "scripts" / "tutorials"
Launched = Callable[..., Launch]
Told = dict[str, Any]


def told(output: str) -> Told:
    """What a program told its test."""
    [line] = re.findall(r"^TOLD (.*)$", output, re.MULTILINE)
    found: Told = json.loads(line)
    return found


def of_both(launch: Launch, attempt: int = 0) -> tuple[Told, Told]:
    """What the two workers told."""
    assert launch.succeeded()
    return told(launch.log("worker-0", attempt).decode()), told(launch.log("worker-1", attempt).decode())


@pytest.fixture(scope="module")
def fitted(launched: Launched, tmp_path_factory: pytest.TempPathFactory) -> tuple[Launch, Path]:
    """A run of the tutorial with `Model.fit`, and the directory that it saved in."""
    directory = tmp_path_factory.mktemp("fitted")
    return launched("--workers", "2", "--", "python", TUTORIALS / "main.py", directory, fresh=True), directory


def test_fit_learns_and_leaves_all_workers_with_the_same_bits(fitted: tuple[Launch, Path]) -> None:
    first, second = of_both(fitted[0])
    assert first == second
    assert first["losses"][-1] < first["losses"][0]


def test_a_checkpoint_gives_all_workers_back_what_was_trained(fitted: tuple[Launch, Path]) -> None:
    first, _ = of_both(fitted[0])
    assert first["restored"] == first["trained"]


def test_what_the_other_workers_saved_is_gone(fitted: tuple[Launch, Path]) -> None:
    _, directory = fitted
    assert {path.name for path in directory.iterdir()} == {"keras-model.keras", "ckpt"}
    assert {path.name for path in (directory / "ckpt").iterdir()} == {
        "checkpoint",
        "ckpt-1.index",
        "ckpt-1.data-00000-of-00001",
    }


def test_the_saved_model_loads_without_a_strategy(fitted: tuple[Launch, Path], gang: Callable[..., Any]) -> None:
    launch, directory = fitted
    [ended] = gang(0, ["python", str(TUTORIALS / "load_model.py"), str(directory / "keras-model.keras")], PYTHON_PATH)
    assert ended.exit_code == 0, ended.output[-4000:]
    assert told(ended.output)["weights"] == of_both(launch)[0]["trained"]


PYTHON_PATH = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
"""Where the programs find the digits; under `launch` it is inherited."""


@pytest.mark.timeout(600)  # two attempts
def test_backup_and_restore_goes_on_after_the_last_whole_epoch(launched: Launched, tmp_path: Path) -> None:
    directory = tmp_path / "saved"
    command = ("python", TUTORIALS / "fault_tolerance.py", directory, "2")
    launch = launched("--workers", "2", "--max-restarts", "1", "--", *command, patience=560)
    first, second = of_both(launch, attempt=1)
    assert first == second
    assert (first["epochs"], first["steps"]) == ([2, 3], 40)
    assert {path.name for path in directory.rglob("*") if path.is_file()} == {
        f"weights-{epoch}.weights.h5" for epoch in range(1, 5)
    }


@pytest.mark.timeout(600)
def test_a_loop_of_ones_own_goes_on_after_the_last_checkpoint(launched: Launched, tmp_path: Path) -> None:
    directory = tmp_path / "saved"
    directory.mkdir()
    command = ("python", TUTORIALS / "custom_loop.py", directory, "1")
    launch = launched("--workers", "2", "--max-restarts", "1", "--", *command, patience=560)
    first, second = of_both(launch, attempt=1)
    assert first == second
    assert first["epochs"] == [1, 2]
    assert first["losses"][-1] < first["losses"][0]
    assert 0 < first["accuracies"][-1] <= 1
    assert {path.name for path in (directory / "ckpt").iterdir()} >= {"checkpoint", "ckpt-3.index"}
    assert [path.name for path in directory.iterdir()] == ["ckpt"]
