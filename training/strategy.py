"""The `tf.distribute` strategy of a run, and how its workers compare notes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from training import keras_fix
from training.devices import prepare_devices
from training.tf_config import Place


def build_strategy(place: Place) -> Any:
    """MultiWorkerMirroredStrategy for two workers or more, else one that covers this process's devices.

    Must run before TensorFlow has done anything else: the cluster is formed here, every worker waits for all.
    """
    gpus = prepare_devices()
    if place.workers > 1:
        keras_fix.enable()
        return tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.MirroredStrategy(gpus) if len(gpus) > 1 else tf.distribute.get_strategy()


def gather(strategy: Any, values: Sequence[int]) -> NDArray[np.int64]:
    """Everybody's `values` [k], one row a replica: [replicas, k]. Every worker has to call this at the same point."""
    row = tf.constant([list(values)], tf.int64)

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow carries no types
    def rows() -> Any:
        return strategy.run(lambda: tf.distribute.get_replica_context().all_gather(row, axis=0))

    return np.asarray(strategy.experimental_local_results(rows())[0])


def wait_for_all(strategy: Any) -> None:
    """Return once every worker has come here, and none needs this one any more to learn so.

    A worker that ends early takes its peers down with it, also while they wait for the last thing that it sent.
    """
    gather(strategy, [0])
    part(strategy)


def part(strategy: Any) -> None:
    """Return once every worker has come here, or has left.

    Who gets through has seen all others come, and they may leave before the rest has seen it: that is no error here.
    """
    with suppress(tf.errors.OpError):
        gather(strategy, [0])
