"""The `tf.distribute` strategy of a run."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from training import keras_fix
from training.devices import prepare_devices
from training.keras_fix.parting import part
from training.tf_config import Place


def build_strategy(place: Place) -> Any:
    """MultiWorkerMirroredStrategy for two workers or more, else one that covers this process's devices.

    Must run before TensorFlow has done anything else: the cluster is formed here, every worker waits for all.
    """
    gpus = prepare_devices()
    if place.workers > 1:
        keras_fix.enable()
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        part(
            strategy
        )  # one that ends from now on, by a wrong option, takes nobody down who is still forming the cluster
        return strategy
    return tf.distribute.MirroredStrategy(gpus) if len(gpus) > 1 else tf.distribute.get_strategy()
