"""Loads what the ways of saving left, without any strategy, and writes what each answers to `DIRECTORY/read.json`.

python -m keras_ways.read DIRECTORY...
"""

import json
import sys
from pathlib import Path

import keras
import tensorflow as tf

from keras_ways.samples import unseen


def of_weights(path):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
    model.load_weights(path)
    return model.predict(unseen, verbose=0)


def of_export(path):
    loaded = tf.saved_model.load(path)  # it holds the variables of what it serves
    return loaded.serve(unseen).numpy()


READERS = {
    "model.keras": lambda path: keras.models.load_model(path).predict(unseen, verbose=0),
    "model.weights.h5": of_weights,
    "saved_model": of_export,
}

for directory in map(Path, sys.argv[1:]):
    found = [path for path in sorted(directory.glob("*/shared/*/*")) if path.name in READERS]
    answers = {path.parent.name: READERS[path.name](str(path)).tolist() for path in found}
    (directory / "read.json").write_text(json.dumps(answers))
