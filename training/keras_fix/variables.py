"""Variables of several replicas: numbers, seeds, and what each replica has on its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from .strategy import is_multi_worker
from .untyped import Data, Function


def assign_unread(original: Function) -> Function:
    """An assignment returns the new value, and that of a metric's variable is a sum over all workers.

    Nobody needs it where the metrics are reset, at the beginning of each epoch and each evaluation.
    """

    def _direct_assign(self: Any, value: Data) -> None:
        if is_multi_worker(getattr(self._value, "distribute_strategy", None)):
            self._value.assign(tf.cast(value, self._value.dtype), read_value=False)
        else:
            original(self, value)

    return _direct_assign


def of_this_replica(original: Function) -> Function:
    """`float(model.optimizer.learning_rate)` is a TypeError for several replicas' variable; its value is no such."""

    def number(self: Any) -> Any:
        of_several = is_multi_worker(getattr(self.value, "distribute_strategy", None))
        return original(LocalValue(self.ndim, self.shape, tf.convert_to_tensor(self.value)) if of_several else self)

    return number


class LocalValue(NamedTuple):
    """As much of a Keras variable as it takes to make a number of it."""

    ndim: int
    shape: tuple[int, ...]
    value: Data


def keep_apart(original: Function) -> Function:
    """From 3.7 to 3.9 each update of a metric adds up what all replicas have: here each replica keeps its own part.

    Until 3.6 it does, and since 3.10 the parts are added up when they are read.
    """

    def _map_aggregation(self: Any, aggregation: str) -> Any:
        on_its_own = aggregation in ("sum", "mean") and is_multi_worker(tf.distribute.get_strategy())
        return original(self, "none" if on_its_own else aggregation)

    return _map_aggregation


def make_seeds_of_signed_numbers(original: Function) -> Function:
    """Until 3.4 the seeds of Dropout and others are of a type that TensorFlow's collectives cannot carry."""

    def _initialize(self: Any, value: Data) -> None:
        if self._dtype == "uint32" and is_multi_worker(tf.distribute.get_strategy()):
            self._dtype, value = "int64", tf.cast(value, "int64")
        original(self, value)

    return _initialize
