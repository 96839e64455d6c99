"""The models, by name. Each is a function that builds it anew, inside a strategy or without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def digits_cnn() -> Any:
    """A small convolutional network for 8x8 digits: images [batch, 8, 8, 1] in 0..1 -> logits [batch, 10].

    No dropout and no batch normalization: both depend on how a batch is shared out to the replicas,
    so training would differ with the number of workers.
    """
    from keras import Sequential, layers

    return Sequential(
        [
            layers.Input((8, 8, 1), name="image"),
            layers.Conv2D(32, 3, padding="same", activation="relu", name="conv_1"),
            layers.Conv2D(32, 3, padding="same", activation="relu", name="conv_2"),
            layers.MaxPooling2D(name="pool"),
            layers.Conv2D(64, 3, padding="same", activation="relu", name="conv_3"),
            layers.Flatten(name="flatten"),
            layers.Dense(128, activation="relu", name="dense"),
            layers.Dense(10, name="logits"),
        ],
        name="digits_cnn",
    )


MODELS: dict[str, Callable[[], Any]] = {"digits_cnn": digits_cnn}


def steps_made(model: Any) -> int:
    """Training steps that the weights of a compiled model have seen, restored ones included."""
    from keras import ops

    return int(ops.convert_to_numpy(model.optimizer.iterations))
