"""Real runs of `python -m training` with one, two and three workers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.last_line import last_line

from launcher.cluster.spec import Task
from launcher.doctor.checks.network import DIGITS_CNN_BYTES
from launcher.hosts.events import TaskExited
from launcher.run.failure.ending import Ending
from launcher.run.failure.restart_policy import lasting_reason
from training.data.digits import load_digits
from training.data.order import split

REPOSITORY = Path(__file__).resolve().parents[2]
READ_EXPORTS = REPOSITORY / "tests" / "training" / "scripts" / "read_exports.py"
EPOCHS, STEPS = 20, 29
EPOCH_LINE = re.compile(r"^epoch +(\d+)/20  loss ([\d.]+)  accuracy ([\d.]+)  val_loss ([\d.]+)  val_accuracy ([\d.]+)")
TOLERANCE = 1e-4


class Run(NamedTuple):
    """A finished run: what each worker printed, and where each was told to write."""

    outputs: list[str]
    directory: Path

    @property
    def chief(self) -> Path:
        return self.directory / "output-0"

    @property
    def epochs(self) -> dict[int, list[float]]:
        """Loss, accuracy, val_loss, val_accuracy by epoch, as the chief printed them."""
        matches = filter(None, map(EPOCH_LINE.match, self.outputs[0].splitlines()))
        return {int(match[1]): [float(number) for number in match.groups()[1:]] for match in matches}


class Trainer:
    """Starts runs below one directory. Every worker has an output and a temporary directory of its own."""

    def __init__(self, gang: Any, root: Path) -> None:
        self.gang = gang
        self.root = root

    def environment(self, name: str) -> dict[str, str]:
        directory = self.root / name
        for index in range(3):
            (directory / f"tmp-{index}").mkdir(parents=True, exist_ok=True)
        return {
            "LAUNCH_OUTPUT_DIR": f"{directory}/output-{{index}}",
            "LAUNCH_PROGRESS": f"{directory}/progress-{{index}}",
            "TMPDIR": f"{directory}/tmp-{{index}}",
        }

    def start(
        self, name: str, workers: int, *options: str, env: Mapping[str, str] | None = None
    ) -> tuple[set[int], Run]:
        argv = ["python", "-m", "training", *options]
        ended = self.gang(workers, argv, env=self.environment(name) | dict(env or {}))
        return {each.exit_code for each in ended}, Run([each.output for each in ended], self.root / name)

    def finish(self, name: str, workers: int, *options: str, env: Mapping[str, str] | None = None) -> Run:
        codes, run = self.start(name, workers, *options, env=env)
        assert codes == {0}, "\n".join(run.outputs)
        return run


@pytest.fixture(scope="module")
def trainer(gang: Any, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    return Trainer(gang, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def two(trainer: Trainer) -> Run:
    """The default run with two workers: its global batch is 48."""
    return trainer.finish("two", 2)


@pytest.fixture(scope="module")
def three(trainer: Trainer) -> Run:
    return trainer.finish("three", 3, "--global-batch-size", "48")


@pytest.fixture(scope="module")
def interrupted(trainer: Trainer) -> tuple[int, str, Run]:
    """One process, interrupted by Ctrl-C in its third epoch: exit code, stderr, directory."""
    env = {key: value.replace("{index}", "0") for key, value in trainer.environment("one").items()}
    command = [sys.executable, "-m", "training", "--global-batch-size", "48"]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "TF_CONFIG": ""}
    errors = trainer.root / "one" / "stderr"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            command, cwd=REPOSITORY, env=os.environ | env | quiet, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        try:
            lines = list(until("epoch  2/", process))
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            output = "".join([*lines, process.stdout.read()])
            code = process.wait()
        finally:
            process.kill()
    return code, errors.read_text(), Run([output], trainer.root / "one")


def until(start: str, process: subprocess.Popen[str]) -> Iterator[str]:
    """The lines a process prints, up to the first that begins with `start`."""
    assert process.stdout is not None
    for line in process.stdout:
        yield line
        if line.startswith(start):
            return


@pytest.fixture(scope="module")
def one(interrupted: tuple[int, str, Run], trainer: Trainer) -> Run:
    """The interrupted run of one process without `TF_CONFIG`, resumed and finished."""
    rest = trainer.finish("one", 0, "--global-batch-size", "48")
    return Run([interrupted[2].outputs[0] + rest.outputs[0]], rest.directory)


@pytest.fixture(scope="module")
def restarted(two: Run, trainer: Trainer) -> Run:
    """Two workers that find the checkpoint before the last, as a gang does that was killed in the last epoch."""
    checkpoints = trainer.root / "restarted" / "output-0" / "checkpoints"
    shutil.copytree(two.chief / "checkpoints", checkpoints)
    for newest in checkpoints.glob(f"step-{EPOCHS * STEPS}.*"):
        newest.unlink()
    name = f"step-{(EPOCHS - 1) * STEPS}"
    (checkpoints / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n')
    shared = {"LAUNCH_OUTPUT_DIR": str(checkpoints.parent), "LAUNCH_ATTEMPT": "1"}
    return trainer.finish("restarted", 2, env=shared)


@pytest.fixture(scope="module")
def exports(one: Run, two: Run, three: Run, restarted: Run, gang: Any) -> dict[str, dict[str, Any]]:
    """What one process without a strategy reads from the exports, by run."""
    runs = {"one": one, "two": two, "three": three, "restarted": restarted}
    directories = [str(run.chief / "export") for run in runs.values()]
    (ended,) = gang(0, ["python", str(READ_EXPORTS), *directories], env={"PYTHONPATH": str(REPOSITORY)})
    assert ended.exit_code == 0, ended.output
    return {name: dict(np.load(run.chief / "export" / "read.npz")) for name, run in runs.items()}


def test_the_default_run_with_two_workers_is_accurate(two: Run) -> None:
    final = re.search(r"^held-out accuracy ([\d.]+) \(\d+ of 360\)", two.outputs[0], re.MULTILINE)
    assert final
    assert float(final[1]) >= 0.97


@pytest.mark.parametrize("name", ["one", "three", "restarted"])
def test_the_weights_do_not_depend_on_workers_or_restarts(name: str, exports: dict[str, dict[str, Any]]) -> None:
    assert np.max(np.abs(exports[name]["weights"] - exports["two"]["weights"])) <= TOLERANCE


def test_the_gradients_are_as_large_as_launch_doctor_supposes(exports: dict[str, dict[str, Any]]) -> None:
    assert exports["two"]["weights"].astype(np.float32).nbytes == DIGITS_CNN_BYTES


def test_every_epoch_is_the_same_with_one_two_and_three_workers(one: Run, two: Run, three: Run) -> None:
    assert list(two.epochs) == list(range(1, EPOCHS + 1))
    for run in (one, three):
        assert list(run.epochs) == list(two.epochs)
        # The chief prints four decimals: two equal numbers may differ by one in the last of them.
        assert np.max(np.abs(np.array([*run.epochs.values()]) - np.array([*two.epochs.values()]))) < 1.5 * TOLERANCE


@pytest.mark.parametrize("kind", ["keras", "saved_model"])
def test_an_export_answers_without_a_strategy_as_the_trained_model_did(
    kind: str, two: Run, exports: dict[str, dict[str, Any]]
) -> None:
    digits = load_digits()
    held_out = split(len(digits.labels), seed=0).held_out
    right = int(np.sum(np.argmax(exports["two"][kind], axis=1)[held_out] == digits.labels[held_out]))
    assert f"({right} of 360)" in two.outputs[0]
    assert two.epochs[EPOCHS][3] == pytest.approx(right / 360, abs=TOLERANCE)


def test_only_the_chief_writes_and_nothing_else_is_left(two: Run) -> None:
    assert {path.name for path in two.chief.iterdir()} == {"checkpoints", "tensorboard", "export"}
    assert not (two.directory / "output-1").exists()
    assert [list((two.directory / f"tmp-{index}").iterdir()) for index in range(2)] == [[], []]


def test_only_the_chief_talks(two: Run) -> None:
    talk = ("digits_cnn", "epoch", "held-out")
    talking = [any(line.startswith(talk) for line in output.splitlines()) for output in two.outputs]
    assert talking == [True, False]


def test_the_newest_checkpoints_are_kept(two: Run) -> None:
    kept = {path.name for path in (two.chief / "checkpoints").iterdir()}
    steps = [STEPS * epoch for epoch in (18, 19, 20)]
    assert kept == {"checkpoint"} | {f"step-{n}.{end}" for n in steps for end in ("index", "data-00000-of-00001")}


def test_a_restarted_gang_goes_on_after_the_newest_checkpoint(restarted: Run) -> None:
    assert f"found a checkpoint after epoch {EPOCHS - 1} (step {(EPOCHS - 1) * STEPS})" in restarted.outputs[0]
    assert list(restarted.epochs) == [EPOCHS]


@pytest.mark.parametrize("index", [0, 1])
def test_every_worker_reports_its_steps(index: int, two: Run) -> None:
    reports = [json.loads(line) for line in (two.directory / f"progress-{index}").read_text().splitlines()]
    steps = [report["step"] for report in reports]
    assert steps == sorted(steps)
    assert {key: reports[-1][key] for key in ("step", "epoch")} == {"step": EPOCHS * STEPS, "epoch": EPOCHS - 1}
    assert reports[-1]["loss"] == pytest.approx(two.epochs[EPOCHS][0], abs=TOLERANCE)


def test_ctrl_c_ends_a_run_with_130_and_one_line(interrupted: tuple[int, str, Run]) -> None:
    code, errors, run = interrupted
    assert code == 130
    assert "Traceback" not in errors
    assert errors.count("interrupted; the same command goes on from the newest checkpoint\n") == 1
    assert EPOCHS not in run.epochs


def test_a_finished_run_is_not_trained_further(two: Run, trainer: Trainer) -> None:
    copy = trainer.root / "again" / "output-0" / "checkpoints"
    shutil.copytree(two.chief / "checkpoints", copy)
    run = trainer.finish("again", 0, "--global-batch-size", "48")
    assert "nothing left to train with --epochs 20" in run.outputs[0]
    assert last_line(run.outputs[0]).split(";")[0] == last_line(two.outputs[0]).split(";")[0]


def test_other_settings_than_the_checkpoints_are_an_error(two: Run, trainer: Trainer) -> None:
    codes, run = trainer.start("other", 0, env={"LAUNCH_OUTPUT_DIR": str(two.chief)})
    assert codes == {2}
    assert "other settings (global batch size 48 there, 24 now)" in run.outputs[0]


def test_a_damaged_checkpoint_is_an_error_that_names_it(two: Run, trainer: Trainer) -> None:
    damaged = trainer.root / "damaged" / "output-0" / "checkpoints"
    shutil.copytree(two.chief / "checkpoints", damaged)
    (damaged / f"step-{EPOCHS * STEPS}.data-00000-of-00001").write_bytes(b"not what was written")
    codes, run = trainer.start("damaged", 0, "--global-batch-size", "48")
    assert codes == {1}
    assert f"error: the newest checkpoint {damaged}/step-{EPOCHS * STEPS} cannot be restored" in run.outputs[0]
    assert "Traceback" not in run.outputs[0]


def test_workers_that_do_not_find_the_same_checkpoint_stop(two: Run, trainer: Trainer) -> None:
    shutil.copytree(two.chief / "checkpoints", trainer.root / "apart" / "output-0" / "checkpoints")
    codes, run = trainer.start("apart", 2)
    assert codes == {1}
    ends = [TaskExited("localhost", Task("worker", 0), 1, None, False, output.encode()) for output in run.outputs]
    assert all(lasting_reason(Ending(each, stopped=False).failure) for each in ends), "restarts would be spent on it"
    for output in run.outputs:
        assert (
            f"do not find the same checkpoint (step found by replica 0: {EPOCHS * STEPS}, 1: no checkpoint)" in output
        )
        assert "Traceback" not in output


@pytest.mark.parametrize(
    ("option", "code", "said"),
    [
        (("--global-batch-size", "25"), 2, "--global-batch-size 25 cannot be shared out evenly to 2 replicas"),
        (("--learning-rate", "1e9"), 1, "in epoch 1 (step 29); lower --learning-rate"),
    ],
)
def test_each_of_the_workers_that_end_for_the_same_reason_says_it(
    trainer: Trainer, option: tuple[str, str], code: int, said: str
) -> None:
    codes, run = trainer.start("alike", 2, *option)
    assert codes == {code}
    for output in run.outputs:
        assert said in output
        assert "Traceback" not in output


def test_a_worker_that_has_seen_all_others_come_may_leave_first(gang: Any, tmp_path: Path) -> None:
    script = str(REPOSITORY / "tests" / "training" / "scripts" / "part_from_peer.py")
    chief, other = gang(2, ["python", script, str(tmp_path)], env={"PYTHONPATH": str(REPOSITORY)}, timeout=120)
    assert (chief.exit_code, other.exit_code) == (0, 0), chief.output[-4000:]
    assert last_line(chief.output) == "parted"
