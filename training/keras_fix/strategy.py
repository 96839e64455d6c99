"""Under which strategy the package is at work, and what belongs to one replica of it."""

from __future__ import annotations

import importlib

import tensorflow as tf

from .recognising import TRAINER
from .untyped import Data, Function, Strategy


def is_multi_worker(strategy: Strategy) -> bool:
    """Also with one worker: gradient accumulation, and what computes in the arrays of a generator, fail there as well.

    Not in a program that builds graphs by hand (`with tf.Graph().as_default()`): it gets Keras as it is.
    """
    is_strategy = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return is_strategy and bool(tf.compat.v1.executing_eagerly_outside_functions())


def map_structure(function: Function, data: Data) -> Data:
    """Keras's own, whose structures hold None and values per replica as leaves."""
    return importlib.import_module(TRAINER).tree.map_structure(function, data)


def leaves_of(data: Data) -> list[Data]:
    """Those that `map_structure` visits."""
    leaves: list[Data] = importlib.import_module(TRAINER).tree.flatten(data)
    return leaves


def of_first_replica(strategy: Strategy, data: Data) -> Data:
    """What the first replica of this worker has."""
    return map_structure(lambda value: strategy.experimental_local_results(value)[0], data)
