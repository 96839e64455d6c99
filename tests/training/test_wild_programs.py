"""Programs as people write them, in every usual way of feeding, fitting and looping, and what becomes of them.

They know of no launcher. What they write in the directory in which they were started lies beside the run.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from support.last_line import last_line
from support.launching import Launch, cluster_file

WILD = Path(__file__).parent / "scripts" / "wild"
Launched = Callable[..., Launch]
TWO = ("--workers", "2", "--", "python")


@pytest.fixture
def with_python(python: list[str], tmp_path: Path) -> dict[str, str]:
    """Where a shell script finds the Python that has TensorFlow, as in an active environment."""
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(python)} "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def last_lines(launch: Launch, *tasks: str, attempt: int = 0) -> list[str]:
    """What the programs of these tasks said last, once the run has succeeded."""
    assert launch.succeeded()
    return [last_line(launch.log(task, attempt).decode()) for task in tasks or ("worker-0", "worker-1")]


def written(launch: Launch, *below: str) -> set[str]:
    """The files that a program has written in the directory in which it was started."""
    place = launch.runs.parent
    paths = [path for name in below for path in (place / name).rglob("*") if path.is_file()]
    return {str(path.relative_to(place)) for path in paths}


def test_fit_with_every_usual_callback_on_arrays_stops_early_and_leaves_the_chiefs_files(launched: Launched) -> None:
    launch = launched(*TWO, WILD / "fit_with_callbacks.py")
    first, second = last_lines(launch)

    assert first == second
    assert first.startswith("stopped after 4 epochs; 64 predictions; loss 0.")
    assert launch.log("worker-1").count(b"end of epoch") == 4
    assert {path.name for path in launch.runs.parent.glob("*final*")} == {"final.keras", "final.weights.h5"}
    files = written(launch, "checkpoints", "logs", "backup")
    assert {name for name in files if "tfevents" not in name} == {"checkpoints/best.keras", "logs/history.csv"}
    assert len((launch.runs.parent / "logs/history.csv").read_text().splitlines()) == 5


def test_a_loop_of_its_own_in_a_package_trains_on_the_input_of_each_worker(launched: Launched) -> None:
    command = ("-m", "trainer.task", "--epochs", "2", "--batch-size", "8")
    launch = launched(*TWO, *command, env={"PYTHONPATH": f"{WILD}:{Path(__file__).resolve().parents[2]}"})

    assert last_lines(launch) == ["finished training"] * 2
    assert b"12 steps\n" in launch.log("worker-0")


def test_a_chief_and_a_worker_train_on_a_generator_and_nobody_answers_a_question(
    launched: Launched, tmp_path: Path
) -> None:
    file = cluster_file(tmp_path, [{"host": "localhost", "tasks": {"chief": 1, "worker": 1}}], {"start": "120s"}, {})
    launch = launched(*file, "--", "python", WILD / "generator_input.py")

    assert last_lines(launch, "chief-0", "worker-0") == ["epochs: 2", "epochs: 2"]
    assert b"I am chief 0" in launch.log("chief-0")
    assert (launch.runs.parent / "sentiment.keras").exists()


def test_a_job_script_writes_records_and_each_worker_reads_files_of_its_own(
    launched: Launched, with_python: dict[str, str]
) -> None:
    launch = launched("--workers", "2", "--", "sh", WILD / "tfrecord_shards.sh", env=with_python)

    assert last_lines(launch) == ["job script done"] * 2
    assert b"examples seen: 192\n" in launch.log("worker-0"), "96 of 4 files, twice, none of them by both workers"


def test_models_with_their_own_train_step_are_fitted_until_nan_and_without_ever_being_called(
    launched: Launched,
) -> None:
    launch = launched(*TWO, WILD / "own_train_step.py")

    assert last_lines(launch) == ["epochs: [0, 1] [2, 3] 1"] * 2
    assert b"Invalid loss, terminating training" in launch.log("worker-1")
    assert b"gan: ['d_loss', 'g_loss'] 8 steps\n" in launch.log("worker-1")


def test_the_children_of_a_program_are_its_own_business(launched: Launched) -> None:
    launch = launched(*TWO, WILD / "own_children.py", fresh=True)

    assert last_lines(launch) == ["logged epochs: [0, 1]"] * 2


@pytest.mark.timeout(600)  # two attempts
def test_a_program_with_backup_and_restore_goes_on_after_a_restart(launched: Launched) -> None:
    launch = launched("--max-restarts", "1", *TWO, WILD / "resumes_by_itself.py", patience=560)

    assert last_lines(launch, attempt=1) == ["epochs in this life: [2, 3] steps: 16"] * 2
    assert "worker 1 on localhost failed (exit code 1): ConnectionError: the machine is taken away" in launch.stderr
    assert written(launch, "backup") == set()


def test_a_strategy_that_is_made_too_late_is_told_with_the_place_and_the_remedy(launched: Launched) -> None:
    launch = launched(*TWO, WILD / "strategy_too_late.py")

    assert launch.wait() == 1
    assert "RuntimeError: Collective ops must be configured at program startup" in launch.last_words
    assert "What to do: create the MultiWorkerMirroredStrategy before anything else" in launch.last_words
