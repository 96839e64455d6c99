"""Trains and predicts; one JSON line: in which thread each tf.data iterator that Keras made was dropped, and the loss.

`tuned` is what the options of the datasets iterated over say: false where one may not be tuned, null by default.

argv: "arrays", "dataset" or "generator"; the modules whose `enable()` is called first.
"""

import gc
import json
import os
import sys
import threading
import weakref
from importlib import import_module
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.data.ops.multi_device_iterator_ops import OwnedMultiDeviceIterator
from tensorflow.python.ops import gen_dataset_ops

SAMPLES, BATCH = 64, 8
PATIENCE = 60


class Deaths:
    """Watches the resources that an operation makes: which threads destroyed them."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.threads: list[str] = []
        self.one_more = threading.Semaphore(0)

    def watch(self, operation: str) -> None:
        original = getattr(gen_dataset_ops, operation)

        def watched(*args: Any, **keywords: Any) -> Any:
            handle = original(*args, **keywords)
            self.made.append(weakref.ref(handle, self.died))
            return handle

        setattr(gen_dataset_ops, operation, watched)

    def died(self, _: Any) -> None:
        self.threads.append(threading.current_thread().name)
        self.one_more.release()

    def await_all(self) -> list[str]:
        gc.collect()
        for _ in self.made:
            if not self.one_more.acquire(timeout=PATIENCE):
                raise SystemExit(f"{len(self.threads)} of {len(self.made)} iterators were dropped")
        return sorted(set(self.threads))


def options_of(iterator: type, seen: set[bool | None]) -> None:
    """Note what the options of each dataset say that an iterator of this kind is made of."""
    original = iterator.__init__

    def watched(self: Any, dataset: Any = None, *args: Any, **keywords: Any) -> None:
        if dataset is not None:
            seen.add(dataset.options().autotune.enabled)
        original(self, dataset, *args, **keywords)

    iterator.__init__ = watched  # type: ignore[method-assign]


def data(kind: str) -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(SAMPLES, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    if kind == "arrays":
        return {"x": x, "y": y, "batch_size": BATCH}
    if kind == "dataset":
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        return {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).with_options(options)}
    return {"x": ((x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, SAMPLES, BATCH))}


def main() -> None:
    kind, *fixes = sys.argv[1:]
    for module in fixes:
        print("replaced", import_module(module).enable())
    several = "TF_CONFIG" in os.environ
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if several else tf.distribute.get_strategy()
    deaths = Deaths()
    for operation in ("anonymous_iterator_v3", "anonymous_multi_device_iterator_v3"):
        deaths.watch(operation)
    tuned: set[bool | None] = set()
    options_of(OwnedMultiDeviceIterator if several else OwnedIterator, tuned)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    given = data(kind)
    history = model.fit(**given, epochs=1 if kind == "generator" else 3, verbose=0, shuffle=False)
    if kind != "generator":
        model.evaluate(**given, verbose=0)
        model.predict(given["x"], verbose=0)
    told = {"threads": deaths.await_all(), "made": len(deaths.made), "loss": history.history["loss"]}
    print(json.dumps(told | {"tuned": list(tuned)}))


if __name__ == "__main__":
    main()
