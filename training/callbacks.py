"""What happens between the steps of a run: the chief's log, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import keras

from training.errors import TrainingError
from training.keras_fix.parting import part
from training.models import steps_made


class EpochLog(keras.callbacks.Callback):  # type: ignore[misc]
    """One line an epoch: loss and accuracy on the training and the held-out examples, training steps a second."""

    def __init__(self, epochs: int, say: Callable[[str], None]) -> None:
        super().__init__()
        self._epochs = epochs
        self._say = say
        self._started = 0.0
        self._rate = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._started = time.monotonic()

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """The steps of the epoch are done. A hook for batches would have all workers reduce their logs in each step."""
        self._rate = self.params["steps"] / (time.monotonic() - self._started)

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        numbers = "  ".join(f"{name} {logs[name]:.4f}" for name in ("loss", "accuracy", "val_loss", "val_accuracy"))
        self._say(f"epoch {epoch + 1:>{len(str(self._epochs))}}/{self._epochs}  {numbers}  {self._rate:.1f} steps/s")


class SaveCheckpoints(keras.callbacks.Callback):  # type: ignore[misc]
    """Saves after every `every`-th epoch and after the last one; stops a run whose loss is no number, unsaved."""

    def __init__(self, save: Callable[[int], None], every: int, epochs: int) -> None:
        super().__init__()
        self._save = save
        self._every = every
        self._epochs = epochs

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        """Check the loss, then save.

        Raises:
            TrainingError: the loss is infinite or not a number.
        """
        done = epoch + 1
        if not math.isfinite(logs["loss"]):
            part(self.model.distribute_strategy)  # all workers have the same loss: none leaves before it is told
            step = steps_made(self.model)
            raise TrainingError(f"the loss is {logs['loss']} in epoch {done} (step {step}); lower --learning-rate")
        if done % self._every == 0 or done == self._epochs:
            self._save(done)
