"""Loads exported models without any strategy: `read_exports.py DIR...` writes what they are to `read.npz` in each.

`weights`: all weights in one row; `keras`, `saved_model`: what each export answers to all digits.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from training.data.digits import load_digits

images = load_digits().images
for export in map(Path, sys.argv[1:]):
    model = keras.saving.load_model(export / "model.keras")
    saved_model = tf.saved_model.load(str(export / "saved_model"))
    np.savez(
        export / "read.npz",
        weights=np.concatenate([np.ravel(weight) for weight in model.get_weights()]),
        keras=model.predict(images, verbose=0),
        saved_model=saved_model.serve(images),
    )
