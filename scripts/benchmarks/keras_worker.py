"""One worker of the benchmark `keras`: trains a model one way, and writes its numbers into a file.

argv: WAY STEPS_AT_ONCE FILE. WAY is `fit` or `loop`; which Keras, and whether it is mended, the environment says.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

TASK = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
STEPS, EPOCHS = 100, 6
"""Steps an epoch, and epochs; the first two epochs warm up."""
WARM_UP = 2
BATCH = {"mlp": 64, "cnn": 32}
"""Of all workers together."""
SHAPE = {"mlp": (784,), "cnn": (28, 28, 1)}
CLASSES = 10
RATE = 0.01
CASES = {
    "fit": (("mlp", "dataset"), ("mlp", "arrays"), ("cnn", "dataset")),
    "loop": (("mlp", "dataset"), ("cnn", "dataset")),
}


def main() -> None:
    """Train each model, and tell how long a step took, how long the end of `fit`, and where the loss ended."""
    way, steps_at_once, file = sys.argv[1:]
    settle_on_one_core()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    numbers = {
        f"{kind} {source}": trained(strategy, way, kind, source, int(steps_at_once)) for kind, source in CASES[way]
    }
    if TASK == 0:
        Path(file).write_text(json.dumps(numbers))


def settle_on_one_core() -> None:
    """Before TensorFlow makes its threads."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[TASK % len(cores)]})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def trained(strategy: Any, way: str, kind: str, source: str, steps_at_once: int) -> dict[str, float]:
    """The numbers of one model, trained one way."""
    with strategy.scope():
        model = MODELS[kind]()
        model.set_weights(weights(model))
        model.compile(
            keras.optimizers.SGD(RATE),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=steps_at_once,
        )
    times = EpochTimes()
    loss = fit(model, kind, source, times) if way == "fit" else loop(strategy, model, kind, steps_at_once, times)
    end = times.since_the_last()
    return {"step": 1000 * statistics.median(times.seconds[WARM_UP:]) / STEPS, "end": end, "loss": loss}


def weights(model: Any) -> list[Any]:
    """The same for every Keras."""
    random = np.random.default_rng(0)
    return [random.normal(scale=0.05, size=each.shape).astype("float32") for each in model.get_weights()]


def arrays(kind: str) -> tuple[Any, Any]:
    """As many samples as an epoch has."""
    random = np.random.default_rng(1)
    count = STEPS * BATCH[kind]
    return random.normal(size=(count, *SHAPE[kind])).astype("float32"), random.integers(0, CLASSES, count)


def endless(kind: str) -> tf.data.Dataset:
    """The same samples again and again, in batches of all workers together."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices(arrays(kind)).batch(BATCH[kind]).repeat().with_options(options)


def mlp() -> Any:
    """784-16-10."""
    layers = keras.layers
    return keras.Sequential([keras.Input((784,)), layers.Dense(16, activation="relu"), layers.Dense(CLASSES)])


def cnn() -> Any:
    """347,470 parameters."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(204, activation="relu"),
            layers.Dense(CLASSES),
        ]
    )


class EpochTimes(keras.callbacks.Callback):  # type: ignore[misc]
    """How long each epoch takes. No hook of batches: those cost something every step."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._turned = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """The clock starts."""
        self._turned = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """The clock stops."""
        self.seconds.append(self.since_the_last())
        self._turned = time.perf_counter()

    def since_the_last(self) -> float:
        """Seconds since an epoch began or ended."""
        return time.perf_counter() - self._turned


def fit(model: Any, kind: str, source: str, times: EpochTimes) -> float:
    """`Model.fit`, from arrays or from a dataset that goes on for ever; the loss of the last epoch."""
    if source == "arrays":
        x, y = arrays(kind)
        data = {"x": x, "y": y, "batch_size": BATCH[kind], "shuffle": False}
    else:
        data = {"x": endless(kind), "steps_per_epoch": STEPS}
    history = model.fit(**data, epochs=EPOCHS, verbose=2, callbacks=[times])
    return float(history.history["loss"][-1])


def loop(strategy: Any, model: Any, kind: str, steps_at_once: int, times: EpochTimes) -> float:
    """What people write who need it fast: many steps in one `tf.function`; the loss of the last epoch."""
    of_samples = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    with strategy.scope():
        model.optimizer.build(model.trainable_variables)

    def step(batch: Any) -> Any:
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(of_samples(y, model(x, training=True))) / BATCH[kind]
        variables = model.trainable_variables
        model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    def steps(iterator: Any, count: Any) -> Any:
        total = tf.zeros(())
        for _ in tf.range(count):
            loss = strategy.run(step, args=(next(iterator),))
            total += strategy.experimental_local_results(loss)[0]
        return total

    run_steps = tf.function(steps)
    iterator, count = iter(strategy.experimental_distribute_dataset(endless(kind))), tf.constant(steps_at_once)
    own = 0.0
    for epoch in range(EPOCHS):
        times.on_epoch_begin(epoch)
        own = sum(float(run_steps(iterator, count)) for _ in range(STEPS // steps_at_once))
        times.on_epoch_end(epoch)
    total = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(own)))
    return float(strategy.experimental_local_results(total)[0]) / STEPS


MODELS: dict[str, Callable[[], Any]] = {"mlp": mlp, "cnn": cnn}

if __name__ == "__main__":
    main()
