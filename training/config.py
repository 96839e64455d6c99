"""What a training run is asked to do: one frozen value, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from training.errors import UsageError

DEFAULT_BATCH_SIZE = 24
MAX_EPOCHS = 10_000
"""The order of all examples of a run is computed up front (6 MB for 1,000 epochs of the digits)."""


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """The options of a run.

    Raises:
        UsageError: a value is out of range, or two of them contradict each other.
    """

    output_dir: Path
    model: str = "digits_cnn"
    epochs: int = 20
    batch_size: int | None = None
    """Examples a replica and step. Default: 24, where `global_batch_size` is not given."""
    global_batch_size: int | None = None
    """Examples of all replicas a step."""
    learning_rate: float = 0.05
    """At the first step; it falls to zero along a cosine until the last one."""
    seed: int = 0
    checkpoint_every: int = 1
    """Epochs between two checkpoints. The last epoch always ends with one."""
    keep_checkpoints: int = 3

    def __post_init__(self) -> None:
        within("--epochs", self.epochs, 1, MAX_EPOCHS)
        within("--seed", self.seed, 0, 2**32 - 1)
        within("--checkpoint-every", self.checkpoint_every, 1, MAX_EPOCHS)
        within("--keep-checkpoints", self.keep_checkpoints, 1, 1000)
        if self.batch_size is not None and self.global_batch_size is not None:
            raise UsageError("--batch-size is per replica and --global-batch-size for all of them: give one, not both")
        within("--batch-size", 1 if self.batch_size is None else self.batch_size, 1, 2**20)
        within("--global-batch-size", 1 if self.global_batch_size is None else self.global_batch_size, 1, 2**20)
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UsageError(f"--learning-rate is {self.learning_rate}; it must be a positive number")

    def replica_batch_size(self, replicas: int) -> int:
        """Examples a replica and step, with `replicas` of them in all.

        Raises:
            UsageError: the global batch size cannot be shared out evenly.
        """
        if self.global_batch_size is None:
            return DEFAULT_BATCH_SIZE if self.batch_size is None else self.batch_size
        if self.global_batch_size % replicas:
            raise UsageError(uneven(self.global_batch_size, replicas))
        return self.global_batch_size // replicas

    def trajectory(self, replicas: int) -> dict[str, str | int | float]:
        """What decides the course of the weights: a checkpoint can only be resumed with the same."""
        return {
            "model": self.model,
            "seed": self.seed,
            "epochs": self.epochs,
            "learning rate": self.learning_rate,
            "global batch size": self.replica_batch_size(replicas) * replicas,
        }


def within(option: str, value: int, low: int, high: int) -> None:
    """Check that an option's value lies in `low..high`."""
    if not low <= value <= high:
        raise UsageError(f"{option} is {value}; allowed is {low} to {high}")


def uneven(global_batch_size: int, replicas: int) -> str:
    """Say that a global batch cannot be shared out, and which sizes near it can."""
    below = global_batch_size // replicas * replicas
    near = " or ".join(str(size) for size in (below, below + replicas) if size)
    return f"--global-batch-size {global_batch_size} cannot be shared out evenly to {replicas} replicas; {near} can"
