"""What becomes of a Keras program under `launch` when something goes wrong on one of two workers: never a hang."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.launching import Launch

SCRIPT = Path(__file__).parent / "scripts" / "fail_on_one_worker.py"
Launched = Callable[..., Launch]


@pytest.fixture
def run(launched: Launched, tmp_path: Path) -> Callable[[str], Launch]:
    """Run the program until its end."""
    return lambda how: launched("--workers", "2", "--", "python", SCRIPT, how, tmp_path)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("on_epoch_end", "failed (exit code 1): ValueError: bad luck at the end of an epoch"),
        ("on_train_batch_end of worker 1 only", "failed (exit code 1): ValueError: bad luck at the end of a batch"),
        ("sys.exit", "failed (exit code 3)"),
        ("sys.exit without a code", "ended too early (exit code 0): the others were not done"),
        ("python generator", "failed (exit code 1): ValueError: bad luck in the input"),
        (
            "short dataset that claims to be infinite",
            "Input dataset was expected to contain an infinite number of elements but contained only 5 elements",
        ),
    ],
)
def test_what_went_wrong_on_one_worker_ends_the_run_as_its_root_cause(
    run: Callable[[str], Launch], how: str, said: str
) -> None:
    launch = run(how)

    assert launch.wait() == 1
    assert "worker 1 on localhost " in launch.last_words
    assert said in launch.last_words
    cause = launch.run_state["result"]["root_cause"]
    assert cause["task"] == "worker-1"
    assert source_line(cause["location"]).startswith("raise ValueError(") is ("bad luck" in said)


def test_a_save_into_a_missing_directory_is_placed_in_the_program_and_the_directory_is_named(
    run: Callable[[str], Launch], tmp_path: Path
) -> None:
    launch = run("save into a directory that is missing")

    assert launch.wait() == 1
    cause = launch.run_state["result"]["root_cause"]
    assert source_line(cause["location"]).startswith("self.model.save(")
    assert f"What to do: make the directory {tmp_path}/missing on localhost" in launch.last_words
    assert launch.last_words.count("FileNotFoundError") == 2, "in the summary and in the traceback"


def test_files_that_are_too_few_for_the_workers_end_the_run_with_what_tensorflow_says(
    run: Callable[[str], Launch],
) -> None:
    launch = run("too few files")

    assert launch.wait() == 1
    assert "Could not apply FILE based sharding: the dataset only has 1 file(s)" in launch.last_words


def test_datasets_of_different_lengths_end_the_run_with_both_lengths(run: Callable[[str], Launch]) -> None:
    launch = run("short dataset")

    assert launch.wait() == 1
    assert "the workers' datasets have different numbers of batches" in launch.last_words


@pytest.mark.parametrize("how", ["short shard", "nan"])
def test_workers_whose_input_differs_in_length_and_workers_without_a_finite_loss_end_alike(
    run: Callable[[str], Launch], how: str
) -> None:
    launch = run(how)

    assert launch.succeeded()
    first, second = (result(launch.log(task)) for task in ("worker-0", "worker-1"))
    assert first == second
    assert len(first["loss"]) == (1 if how == "nan" else 3)


def source_line(place: str | None) -> str:
    """The line of the program that a root cause names."""
    path, _, line = (place or "").rpartition(":")
    assert path in ("", str(SCRIPT))
    return SCRIPT.read_text().splitlines()[int(line) - 1].strip() if path else ""


def result(log: bytes) -> dict[str, Any]:
    """What the program says at its end; TensorFlow may say more after it."""
    [line] = [line for line in log.splitlines() if line.startswith(b'{"loss"')]
    found: dict[str, Any] = json.loads(line)
    return found
