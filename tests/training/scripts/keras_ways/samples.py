"""Small data, and small models that learn from it."""

import keras
import numpy as np
import tensorflow as tf

GLOBAL_BATCH = 12
STEPS = 10
ROWS = GLOBAL_BATCH * STEPS
_rng = np.random.default_rng(7)
features = _rng.normal(size=(ROWS, 4)).astype("float32")
classes = (features[:, 0] > 0).astype("int32") + (features[:, 1] > 0.5)
signs = (features.sum(axis=1, keepdims=True) > 0).astype("float32")
targets = features[:, :1] * 2 - features[:, 1:2]
sample_weights = np.linspace(0.5, 1.5, ROWS).astype("float32")
held_out = slice(0, 31)  # does not divide into batches, nor by 2 or 3
unseen = _rng.normal(size=(50, 4)).astype("float32")


def dataset(*arrays, batch=GLOBAL_BATCH, **how):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(batch, **how)


def validation():
    return dataset(features[held_out], classes[held_out])


def classifier(here, optimizer=None, hidden=(), metrics=("accuracy",), **how):
    """A Sequential model of unknown input shape. Every layer, slot and metric costs time to trace: it has few."""
    with here.scope():
        layers = [keras.layers.Dense(units, activation="tanh") for units in hidden]
        model = keras.Sequential([*layers, keras.layers.Dense(3, activation="softmax")])
        model.compile(
            optimizer=optimizer() if optimizer else keras.optimizers.SGD(0.1),
            loss="sparse_categorical_crossentropy",
            metrics=list(metrics),
            **how,
        )
    return model


def regressor(here, optimizer=None, layers=(), inputs=4, **how):
    """A model of known input shape: the layers, made under the scope, and one neuron."""
    with here.scope():
        model = keras.Sequential([keras.Input((inputs,)), *[layer() for layer in layers], keras.layers.Dense(1)])
        model.compile(optimizer=optimizer() if optimizer else "sgd", loss="mse", **how)
    return model


def few(n_steps, rows_of=(features, targets)):
    """A dataset of the first steps."""
    return dataset(*[array[: n_steps * GLOBAL_BATCH] for array in rows_of])


_ARRAYS = {"features": features, "classes": classes, "signs": signs, "targets": targets, "weights": sample_weights}
_COPIES = {name: array.copy() for name, array in _ARRAYS.items()}


def overwritten():
    """The arrays that are no longer what they were, put right again.

    A tensor can share its memory with an array that a generator yielded, and TensorFlow computes in place.
    """
    changed = [name for name, array in _ARRAYS.items() if not np.array_equal(array, _COPIES[name])]
    for name in changed:
        _ARRAYS[name][:] = _COPIES[name]
    return changed
