"""The models, by name. Each is a function that builds it anew, inside a strategy or without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def digits_cnn() -> Any:
    """A small convolutional network for 8x8 digits: images [batch, 8, 8, 1] in 0..1 -> logits [batch, 10].

    Everything is smooth (GELU, average pooling): with kinks, as in ReLU or maximum pooling, the rounding errors of a
    sum over two workers instead of one grow during training until the weights differ in the second decimal.
    No dropout and no batch normalization either: they depend on how a batch is shared out to the replicas.
    """
    from keras import Sequential, layers

    return Sequential(
        [
            layers.Input((8, 8, 1), name="image"),
            layers.Conv2D(32, 3, padding="same", activation="gelu", name="conv_1"),
            layers.Conv2D(32, 3, padding="same", activation="gelu", name="conv_2"),
            layers.AveragePooling2D(2, name="pool"),
            layers.Conv2D(64, 3, padding="same", activation="gelu", name="conv_3"),
            layers.Flatten(name="flatten"),
            layers.Dense(128, activation="gelu", name="dense"),
            layers.Dense(10, name="logits"),
        ],
        name="digits_cnn",
    )


MODELS: dict[str, Callable[[], Any]] = {"digits_cnn": digits_cnn}


def steps_made(model: Any) -> int:
    """Training steps that the weights of a compiled model have seen, restored ones included."""
    from keras import ops

    return int(ops.convert_to_numpy(model.optimizer.iterations))
