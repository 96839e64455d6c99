"""A Keras program of two workers that fails inside `fit`: `python fit.py --fault NAME --culprit INDEX`."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--fault", required=True)
parser.add_argument("--culprit", type=int, required=True)
options = parser.parse_args()
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
fault = options.fault if index == options.culprit or options.fault.startswith("fit_all_") else "none"

x = np.random.default_rng(3).normal(size=(960, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)


class Unlucky(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if fault == "fit_callback":
            raise ValueError("labels out of range: found 11, expected 0 to 9")


class Scaled(keras.layers.Layer):
    def call(self, inputs: Any) -> Any:
        if fault == "fit_all_layer_call":
            return tf.matmul(inputs, tf.ones((3, 3)))
        return inputs * 0.5


def examples() -> Iterator[tuple[Any, Any]]:
    for start in range(0, 960, 8):
        if fault == "fit_generator" and start == 80:
            raise ValueError("labels out of range: found 11, expected 0 to 9")
        yield x[start : start + 8], y[start : start + 8]


def checked(label: Any) -> Any:
    if fault == "fit_py_function":
        raise ValueError("labels out of range: found 11, expected 0 to 9")
    return label


def read(label: Any) -> Any:
    try:
        return np.float32(["not a number"])[label.astype("int64")]
    except ValueError as error:
        raise KeyError("no such record:\n  7 of shard 3") from error


def with_checked_label(example: Any, label: Any) -> Any:
    if fault == "fit_numpy_function":
        label = tf.numpy_function(read, [label], tf.float32)
    else:
        label = tf.py_function(checked, [label], tf.float32)
    return example, tf.ensure_shape(label, (None, 1))


def data() -> Any:
    if options.fault == "fit_generator":
        return examples()
    if options.fault == "fit_all_input_shape":
        return tf.data.Dataset.from_tensor_slices((x[:, :3], y)).batch(8)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    return dataset.map(with_checked_label) if options.fault in ("fit_py_function", "fit_numpy_function") else dataset


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    layers = [keras.Input((4,)), Scaled(), keras.layers.Dense(1)]
    if options.fault == "fit_all_layer_call":
        layers.pop(0)
    model = keras.Sequential(layers)
    model.compile("sgd", "mse")

model.fit(data(), epochs=2, callbacks=[Unlucky()], verbose=2)
