"""What a way is told about where it runs, and what the ways have in common."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

WAYS = {}


def way(*, by_replicas=False, worlds="2"):
    """Mark a function as a way of using Keras: it trains in a `World` and returns what came out.

    The reference is the same function without a strategy, or with as many replicas in one process where the
    mathematics depends on their number (`by_replicas`). `worlds`: the numbers of workers that it is tried with, `2x2`
    being two with two devices each; a way for `3` or `2x2` is also tried with the oldest Keras.

    In the outcome, `on_chief` is what only the chief has, and `by_others` what the others must not have.
    """

    def mark(function):
        WAYS[function.__name__] = function
        return function

    return mark


def index_of_worker():
    return json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0)


@dataclass(frozen=True)
class World:
    """Where a way runs: under which strategy, as which worker, with which disks."""

    strategy: tf.distribute.Strategy
    index: int
    shared: Path
    name: str

    @property
    def is_chief(self):
        return self.index == 0

    @property
    def workers(self):
        return len(json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {}).get("worker", [0]))

    @property
    def is_last(self):
        return self.index == self.workers - 1

    @property
    def replicas(self):
        return self.strategy.num_replicas_in_sync

    def steps_per_execution(self, steps):
        """Stock Keras 3 under MirroredStrategy can only run one: "must feed a value for placeholder while/cond"."""
        return 1 if isinstance(self.strategy, tf.distribute.MirroredStrategy) else steps

    def scope(self):
        return self.strategy.scope()

    def same_path_on_own_disk(self):
        """A path that reads the same on all workers, as on hosts that share no disk."""
        Path(self.name).mkdir()
        return f"/proc/self/cwd/{self.name}/of_callback"


def on_chief(here, value):
    return value if here.is_chief else None


def histories(*fits):
    return [{name: floats(values) for name, values in fit.history.items()} for fit in fits]


def floats(values):
    """Numbers, some of which may be arrays (F1Score has one for each class)."""
    return [np.asarray(value, "float64").tolist() for value in values]


def plain(logs):
    """The logs of a callback."""
    return dict(zip(logs, floats(logs.values()), strict=True))


def outcome(model, *fits, **more):
    """What all workers must have alike: history and weights, and what else a way names."""
    return {"history": histories(*fits), "weights": weights(model), **more}


def weights(model):
    return {f"{i}": np.asarray(weight, "float64").ravel().tolist() for i, weight in enumerate(model.get_weights())}


def predictions(model, inputs, **how):
    return tf.nest.map_structure(lambda array: np.asarray(array).tolist(), model.predict(inputs, verbose=0, **how))


def number_in(variable):
    """What a variable of Keras holds; `float()` of it is refused under every strategy."""
    return np.asarray(variable).item()


class Batches(keras.callbacks.Callback):
    """Keeps the logs of every batch and epoch as they are given to callbacks."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(["batch", batch, plain(logs)])

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(["epoch", epoch, plain(logs)])
