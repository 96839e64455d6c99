"""What Keras says where a program builds graphs by hand, before and after `enable()` of each module that is named.

All under MultiWorkerMirroredStrategy; at the end also without a graph of its own.
"""

import json
import sys
from importlib import import_module

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
inputs, targets = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")


def answers():
    """What each use of a model ends with."""
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1), tf.keras.layers.Dropout(0.5)])
        model.compile("sgd", "mse", metrics=["mae"])
    return {
        "fit": ended(lambda: model.fit(inputs, targets, callbacks=[tf.keras.callbacks.TerminateOnNaN()], verbose=0)),
        "evaluate": ended(lambda: model.evaluate(inputs, targets, verbose=0)),
        "predict": ended(lambda: model.predict(inputs, verbose=0)),
        "predict_on_batch": ended(lambda: model.predict_on_batch(inputs)),
        "train_on_batch": ended(lambda: model.train_on_batch(inputs, targets)),
        "float": ended(lambda: float(model.optimizer.learning_rate)),
    }


def ended(use):
    try:
        return type(use()).__name__
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def in_a_graph():
    with tf.Graph().as_default():
        return answers()


stock = in_a_graph()
for module in sys.argv[1:]:
    assert import_module(module).enable()
print(json.dumps({"stock": stock, "enabled": in_a_graph(), "eager": answers()}))
