"""What happens between the steps of a run: the chief's log, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import keras

from training.errors import TrainingError
from training.models import steps_made


class Validation(keras.callbacks.Callback):  # type: ignore[misc]  # Keras carries no types
    """Adds `val_` metrics to the logs of every epoch; has to be the first callback.

    `fit(validation_data=...)` would make and destroy an iterator every epoch, which takes longer than the
    held-out digits themselves. `dataset` must be endless: `steps` batches of it are one pass.
    """

    def __init__(self, dataset: Any, steps: int) -> None:
        super().__init__()
        self._batches = iter(dataset)
        self._steps = steps

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:  # noqa: ARG002
        self.model.make_test_function()
        self.model.reset_metrics()
        for _ in range(self._steps):
            self.model.test_function(self._batches)
        logs.update({f"val_{name}": float(value) for name, value in self.model.get_metrics_result().items()})


class EpochLog(keras.callbacks.Callback):  # type: ignore[misc]
    """One line an epoch: loss and accuracy on the training and the held-out examples, training steps a second."""

    def __init__(self, epochs: int, say: Callable[[str], None]) -> None:
        super().__init__()
        self._epochs = epochs
        self._say = say
        self._started = self._last = 0.0
        self._steps = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._started = time.monotonic()
        self._steps = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._last = time.monotonic()
        self._steps = batch + 1

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        rate = self._steps / (self._last - self._started)
        numbers = "  ".join(f"{name} {logs[name]:.4f}" for name in ("loss", "accuracy", "val_loss", "val_accuracy"))
        self._say(f"epoch {epoch + 1:>{len(str(self._epochs))}}/{self._epochs}  {numbers}  {rate:.1f} steps/s")


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
            step = steps_made(self.model)
            raise TrainingError(f"the loss is {logs['loss']} in epoch {done} (step {step}); lower --learning-rate")
        if done % self._every == 0 or done == self._epochs:
            self._save(done)
