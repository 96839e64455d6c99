"""The trained model as files that need no strategy: `model.keras` and a SavedModel, checked before they appear."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from training.errors import TrainingError

TOLERANCE = 1e-4
Numbers = NDArray[np.float32]


def export_model(model: Any, directory: Path, inputs: Numbers) -> Numbers:
    """Write `model` to `directory`, and return what the exported model answers to `inputs`.

    The chief alone can do this: the weights are copied into a model outside of any strategy first.
    `directory` is replaced as a whole, once both files were loaded again and gave the same outputs.

    Raises:
        TrainingError: an exported model answers differently from the trained one.
    """
    plain = keras.models.clone_model(model)
    plain.set_weights(model.get_weights())
    outputs = np.asarray(plain(inputs))
    new = directory.with_name(f".{directory.name}-new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    plain.save(new / "model.keras")
    plain.export(new / "saved_model", verbose=False)
    check_exports(new, inputs, outputs)
    replace_directory(new, directory)
    return outputs


def check_exports(directory: Path, inputs: Numbers, outputs: Numbers) -> None:
    """Load both exports and compare their answers to `inputs` with `outputs`."""
    saved_model = tf.saved_model.load(str(directory / "saved_model"))
    answers = {
        "model.keras": keras.saving.load_model(directory / "model.keras", compile=False)(inputs),
        "saved_model": saved_model.serve(inputs),
    }
    for name, answer in answers.items():
        difference = float(np.max(np.abs(np.asarray(answer) - outputs)))
        if not difference <= TOLERANCE:
            raise TrainingError(f"the exported {name} answers differently from the trained model (by {difference:.2g})")


def replace_directory(new: Path, directory: Path) -> None:
    """Put `new` in the place of `directory` by rename."""
    old = directory.with_name(f".{directory.name}-old")
    shutil.rmtree(old, ignore_errors=True)
    if directory.exists():
        directory.replace(old)
    new.replace(directory)
    shutil.rmtree(old, ignore_errors=True)
