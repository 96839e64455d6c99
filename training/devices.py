"""What this process trains on, set up before TensorFlow's runtime starts."""

from __future__ import annotations

import tensorflow as tf


def prepare_devices() -> list[str]:
    """Make results repeatable and let workers share a GPU; the names of the GPUs that TensorFlow sees."""
    tf.config.experimental.enable_op_determinism()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    return [f"GPU:{index}" for index, _ in enumerate(gpus)]
