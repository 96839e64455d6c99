"""The reports of progress that any Keras program writes under `launch`, beside what Keras itself told the program."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from support.launching import Launch

SCRIPTS = Path(__file__).parent / "scripts"
STEPS, EPOCHS = 120, 2

Reports = list[dict[str, Any]]
Launched = Callable[..., Launch]


@pytest.fixture(scope="module", params=[1, 2])
def fits(request: pytest.FixtureRequest, launched: Launched) -> tuple[Launch, int]:
    """A program that fits twice, and how many workers ran it."""
    launch = launched("--workers", str(request.param), "--", "python", SCRIPTS / "fit_twice.py")
    assert launch.succeeded()
    return launch, request.param


def reports(launch: Launch, task: str) -> Reports:
    """All that one worker reported."""
    lines = (launch.run_directory / "attempt-0" / f"{task}.progress.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def by_fit(found: Reports) -> list[Reports]:
    """The reports of each `fit`: with a new model the steps begin anew."""
    starts = [i for i, report in enumerate(found) if i == 0 or report["step"] < found[i - 1]["step"]]
    return [found[start:end] for start, end in zip(starts, [*starts[1:], len(found)], strict=True)]


def told_by_keras(launch: Launch, task: str) -> dict[str, dict[str, list[float]]]:
    """The history of each `fit`, which the program prints last; TensorFlow may say more after it."""
    [line] = [line for line in launch.log(task).splitlines() if line.startswith(b"{")]
    history: dict[str, dict[str, list[float]]] = json.loads(line)
    return history


def test_the_last_report_of_a_fit_is_what_keras_tells_at_its_end(fits: tuple[Launch, int]) -> None:
    launch, workers = fits
    for task in (f"worker-{i}" for i in range(workers)):
        step_by_step, fifty_at_a_time = by_fit(reports(launch, task))
        for found, history in zip((step_by_step, fifty_at_a_time), told_by_keras(launch, task).values(), strict=True):
            last = found[-1]
            assert (last["step"], last["epoch"]) == (STEPS * EPOCHS, EPOCHS - 1)
            assert {"loss": last["loss"], **last["metrics"]} == {name: of[-1] for name, of in history.items()}


def test_every_fit_reports_after_its_first_execution(fits: tuple[Launch, int]) -> None:
    launch, workers = fits
    for task in (f"worker-{i}" for i in range(workers)):
        assert [found[0]["step"] for found in by_fit(reports(launch, task))] == [1, 50]
        assert [found[0]["epoch"] for found in by_fit(reports(launch, task))] == [0, 0]


def test_steps_a_second_are_told_but_never_of_the_first_execution(fits: tuple[Launch, int]) -> None:
    launch, _ = fits
    for found in by_fit(reports(launch, "worker-0")):
        assert "steps_per_second" not in found[0]
        assert any(report.get("steps_per_second", 0) > 0 for report in found[1:])


def tell_of_input(found: Reports) -> list[bool]:
    """Whether the reports of each `fit` say how long it waited for input."""
    return [any("input_seconds" in report for report in of_fit) for of_fit in by_fit(found)]


def test_waiting_for_input_is_told_for_one_step_and_for_many_at_a_time(fits: tuple[Launch, int]) -> None:
    launch, _ = fits
    assert tell_of_input(reports(launch, "worker-0")) == [True, True]


def test_waiting_for_input_is_left_out_where_keras_alone_does_many_steps_at_a_time(
    gang: Callable[..., Any], tmp_path: Path
) -> None:
    env = {"LAUNCH_PROGRESS": str(tmp_path / "progress")}
    [ended] = gang(0, ["python", str(SCRIPTS / "fit_twice.py")], env=env, keras_fix=True)
    assert ended.exit_code == 0, ended.output[-4000:]
    found = [json.loads(line) for line in (tmp_path / "progress").read_text().splitlines()]
    assert tell_of_input(found) == [True, False]


def test_the_launcher_reads_the_reports(fits: tuple[Launch, int]) -> None:
    launch, _ = fits
    lines = [json.loads(event["line"]) for event in launch.events if event["type"] == "progress_made"]
    assert lines[-1]["step"] == STEPS * EPOCHS


@pytest.mark.parametrize("workers", [1, 2])
def test_a_slow_input_shows_and_so_does_a_validation(launched: Launched, workers: int) -> None:
    launch = launched("--workers", str(workers), "--", "python", SCRIPTS / "fit_twice.py", "0.3")
    assert launch.succeeded()
    found = [report for i in range(workers) for report in reports(launch, f"worker-{i}")]
    # Of several workers whose input is equally slow, one may be ahead of the other and never wait for its own.
    assert max(report.get("input_seconds", 0) for report in found) > 0.1
    assert any("validation_batch" in report for report in found)


def test_without_the_keras_fix_nothing_is_reported(launched: Launched) -> None:
    launch = launched("--workers", "1", "--no-keras-fix", "--", "python", SCRIPTS / "fit_twice.py")
    assert launch.succeeded()
    assert not list((launch.run_directory / "attempt-0").glob("*.progress.jsonl"))


def test_a_file_that_cannot_be_written_is_said_once_and_training_goes_on(
    gang: Callable[..., Any], tmp_path: Path
) -> None:
    env = {"LAUNCH_PROGRESS": str(tmp_path / "none" / "progress")}
    [ended] = gang(1, ["python", str(SCRIPTS / "fit_twice.py")], env=env, keras_fix=True)
    assert ended.exit_code == 0, ended.output[-4000:]
    [line] = [line for line in ended.output.splitlines() if "no reports of progress" in line]
    assert env["LAUNCH_PROGRESS"] in line


def test_a_callback_list_of_ones_own_works_with_and_without_a_model(gang: Callable[..., Any], tmp_path: Path) -> None:
    env = {"LAUNCH_PROGRESS": str(tmp_path / "progress")}
    [ended] = gang(1, ["python", str(SCRIPTS / "own_callback_list.py")], env=env, keras_fix=True)
    assert ended.exit_code == 0, ended.output[-4000:]
    steps = [json.loads(line)["step"] for line in (tmp_path / "progress").read_text().splitlines()]
    assert (steps[0], steps[-1]) == (1, 4)


@pytest.fixture
def progress(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What reports, which needs no TensorFlow to be imported, with a file to report in."""
    monkeypatch.setenv("LAUNCH_PROGRESS", "progress")
    return importlib.import_module("training.keras_fix.progress")


class UnknownCallbackList:
    """Of a Keras to come."""

    def on_train_begin(self, something: object) -> None:
        """Is called in another way."""


def stand_in(version: str = "3.99.0", backend: str = "tensorflow") -> SimpleNamespace:
    """A Keras."""
    callbacks = SimpleNamespace(CallbackList=UnknownCallbackList)
    return SimpleNamespace(__version__=version, config=SimpleNamespace(backend=lambda: backend), callbacks=callbacks)


@pytest.mark.parametrize("other", [{"version": "2.15.0"}, {"backend": "jax"}])
def test_keras_2_and_other_backends_are_left_alone_in_silence(
    progress: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    other: dict[str, str],
) -> None:
    monkeypatch.setitem(sys.modules, "keras", stand_in(**other))
    assert (progress.enable(), capsys.readouterr().err) == (False, "")


def test_without_a_file_to_report_in_keras_is_left_alone(progress: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", stand_in())
    monkeypatch.delenv("LAUNCH_PROGRESS")
    assert progress.enable() is False


def test_a_keras_that_looks_different_is_left_alone_and_that_is_said(
    progress: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stock = UnknownCallbackList.on_train_begin
    monkeypatch.setitem(sys.modules, "keras", stand_in())
    clock = SimpleNamespace(InputClock=SimpleNamespace)  # the real one imports TensorFlow
    monkeypatch.setitem(sys.modules, "training.keras_fix.input_clock", clock)
    assert progress.enable() is False
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("tf-launch: Keras 3.99.0 is not recognised")
    assert UnknownCallbackList.on_train_begin is stock
