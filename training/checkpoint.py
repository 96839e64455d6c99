"""Checkpoints that all workers take part in: saved together, restored together, to the same step.

Every worker runs every save, because variables that are summed over the replicas when they are read need all of them.
The chief writes to the output directory, the others to a temporary directory that is gone at once.
TensorFlow writes the files first and names them in `checkpoint` last, by rename: a save cut short is never read.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from training.errors import TrainingError, UsageError
from training.keras_fix.parting import gather, part
from training.models import steps_made
from training.tf_config import Place

PREFIX = "step"
READ_ERRORS = (tf.errors.OpError, AssertionError, IndexError, KeyError, RuntimeError, ValueError)
"""TensorFlow's checkpoint reader turns what it finds in a damaged file into any of these."""


class RunState(tf.train.experimental.PythonState):  # type: ignore[misc]  # TensorFlow carries no types
    """What a checkpoint holds besides the variables: how far the run was, and what decided its course."""

    def __init__(self, trajectory: Mapping[str, Any]) -> None:
        super().__init__()
        self.epoch = 0
        self.step = 0
        self.trajectory = dict(trajectory)

    def serialize(self) -> str:
        """The state as JSON."""
        return json.dumps({"epoch": self.epoch, "step": self.step, "trajectory": self.trajectory})

    def deserialize(self, string_value: str) -> None:
        """Take the state over from JSON."""
        values = json.loads(string_value)
        self.epoch, self.step, self.trajectory = values["epoch"], values["step"], values["trajectory"]


class Checkpoints:
    """The checkpoints of one run: `directory`/step-N.index and .data, the newest `keep` of them."""

    def __init__(self, directory: Path, model: Any, trajectory: Mapping[str, Any], place: Place, keep: int) -> None:
        self.directory = directory
        self._place = place
        self._model = model
        self._state = RunState(trajectory)
        self._checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer, run=self._state)
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, str(directory), max_to_keep=keep, checkpoint_name=PREFIX
        )

    def save(self, epoch: int) -> None:
        """Save after `epoch` finished epochs. Every worker has to call this at the same point.

        Raises:
            TrainingError: the files could not be written.
        """
        self._state.epoch = epoch
        self._state.step = steps_made(self._model)
        try:
            self._write()
        except (tf.errors.OpError, OSError) as error:
            raise TrainingError(f"no checkpoint could be written to {self.directory}: {first_line(error)}") from error

    def _write(self) -> None:
        if self._place.is_chief:
            self._manager.save(checkpoint_number=self._state.step)
            return
        with tempfile.TemporaryDirectory(prefix="training-checkpoint-") as directory:
            self._checkpoint.write(str(Path(directory, PREFIX)))

    def restore(self, strategy: Any) -> int:
        """Restore the newest checkpoint, on every worker; the number of epochs it has finished, 0 without one.

        Raises:
            TrainingError: a checkpoint cannot be read, or the workers do not all find the same one.
            UsageError: it comes from a run with other settings.
        """
        newest = newest_checkpoint(self.directory)
        asked = self._state.trajectory
        found = RunState(asked) if newest is None else read_state(newest, asked)
        rows = gather(strategy, [found.epoch, found.step, fingerprint(asked)])
        part(strategy)  # one that ends by the checks below takes nobody down who has still to receive the rows
        check_agreement(rows, self._place, self.directory)
        check_trajectory(asked, found.trajectory, self.directory)
        if newest is not None:
            self._restore(newest)
        return found.epoch

    def _restore(self, path: str) -> None:
        try:
            status = self._checkpoint.restore(path)
            status.assert_existing_objects_matched()
            status.assert_consumed()
        except READ_ERRORS as error:
            raise TrainingError(unreadable(path, error)) from error


def newest_checkpoint(directory: Path) -> str | None:
    """Path prefix of the newest complete checkpoint, None where nothing was saved yet.

    Raises:
        TrainingError: there was a checkpoint, but TensorFlow cannot find it any more.
    """
    newest: str | None = tf.train.latest_checkpoint(str(directory))
    if newest is None and (directory / "checkpoint").exists():
        raise TrainingError(
            f"{directory / 'checkpoint'} names no checkpoint that is there. Make it name one of the "
            f"{PREFIX}-*.index files beside it, or start anew with another --output-dir"
        )
    return newest


def read_state(path: str, trajectory: Mapping[str, Any]) -> RunState:
    """Read how far a checkpoint's run was, without touching any variable."""
    state = RunState(trajectory)
    try:
        tf.train.Checkpoint(run=state).restore(path).expect_partial()
    except READ_ERRORS as error:
        raise TrainingError(unreadable(path, error)) from error
    return state


def fingerprint(trajectory: Mapping[str, Any]) -> int:
    """A number that differs where the settings do."""
    return zlib.crc32(json.dumps(trajectory, sort_keys=True).encode())


def check_agreement(rows: list[list[int]], place: Place, directory: Path) -> None:
    """Check that all replicas ([epoch, step, fingerprint] each) start from the same point with the same settings."""
    if len({tuple(row) for row in rows}) == 1:
        return
    if len({row[2] for row in rows}) > 1:
        raise UsageError("the workers were started with different options; give all of them the same ones")
    steps = ", ".join(f"{number}: {row[1] or 'no checkpoint'}" for number, row in enumerate(rows))
    raise TrainingError(
        f"the workers do not find the same checkpoint (step found by replica {steps}); {place} looked in {directory}. "
        "`launch` brings the chief's newest checkpoint to all hosts where it lies below LAUNCH_OUTPUT_DIR; for another "
        "--output-dir use a disk that all hosts share, or copy it to every host"
    )


def check_trajectory(asked: Mapping[str, Any], found: Mapping[str, Any], directory: Path) -> None:
    """Check that a checkpoint belongs to the run that was asked for."""
    differences = [
        f"{name} {found.get(name)} there, {asked.get(name)} now"
        for name in sorted({*asked, *found})
        if asked.get(name) != found.get(name)
    ]
    if differences:
        raise UsageError(
            f"{directory} holds checkpoints of a run with other settings ({'; '.join(differences)}). "
            "Give the same settings to resume it, or another --output-dir to start anew"
        )


def unreadable(path: str, error: Exception) -> str:
    """Say that a checkpoint is damaged, and what to do."""
    return (
        f"the newest checkpoint {path} cannot be restored: {first_line(error)}. Take it out of the way and "
        f"name an older one in {Path(path).with_name('checkpoint')}, or start anew with another --output-dir"
    )


def first_line(error: Exception) -> str:
    """The first line of an error's message; TensorFlow's run over many."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
