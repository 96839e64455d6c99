"""What all chapters use of Keras and TensorFlow, which carry no types: these names say what is meant."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import tensorflow as tf

TRAINER = "keras.src.backend.tensorflow.trainer"
Function = Callable[..., Any]
Announce = Callable[[], None]
Model = Any
Strategy = Any
Data = Any  # a nested structure of tensors or of values per replica
Callback = Any


def is_multi_worker(strategy: Strategy) -> bool:
    """Of one worker, too: gradient accumulation, and what computes in the arrays of a generator, fail there as well.

    Not in a program that builds graphs by hand (`with tf.Graph().as_default()`): it gets Keras as it is.
    """
    is_strategy = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return is_strategy and bool(tf.compat.v1.executing_eagerly_outside_functions())


@functools.cache
def keras_trainer() -> ModuleType:
    return importlib.import_module(TRAINER)
