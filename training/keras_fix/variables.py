"""Variables of several replicas: numbers, seeds, and what each replica has on its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from .stock import Announce, Data, Function, is_multi_worker


def assign_unread(original: Function, _: Announce) -> Function:
    """An assignment answers with the new value, which of a metric's variable is a sum over all workers.

    Nobody wants it where the metrics are reset, at the beginning of each epoch and each evaluation.
    """

    def _direct_assign(self: Any, value: Data) -> None:
        if is_multi_worker(getattr(self._value, "distribute_strategy", None)):
            self._value.assign(tf.cast(value, self._value.dtype), read_value=False)
        else:
            original(self, value)

    return _direct_assign


def of_this_replica(original: Function, _: Announce) -> Function:
    """`float(model.optimizer.learning_rate)`: a variable of several replicas is no number to Python, its value is."""

    def number(self: Any) -> Any:
        of_several = is_multi_worker(getattr(self.value, "distribute_strategy", None))
        return original(Value(self.ndim, self.shape, tf.convert_to_tensor(self.value)) if of_several else self)

    return number


class Value(NamedTuple):
    """As much of a Keras variable as it takes to make a number of it."""

    ndim: int
    shape: tuple[int, ...]
    value: Data


def keep_apart(original: Function, _: Announce) -> Function:
    """From 3.7 to 3.9 each update of a metric adds up what all replicas have: each must have its own part.

    Until 3.6 each has, and since 3.10 its parts are added up when they are read.
    """

    def _map_aggregation(self: Any, aggregation: str) -> Any:
        on_its_own = aggregation in ("sum", "mean") and is_multi_worker(tf.distribute.get_strategy())
        return original(self, "none" if on_its_own else aggregation)

    return _map_aggregation


def make_seeds_of_signed_numbers(original: Function, _: Announce) -> Function:
    """Until 3.4 the seeds of Dropout and others are of a type that TensorFlow's collectives cannot carry."""

    def _initialize(self: Any, value: Data) -> None:
        if self._dtype == "uint32" and is_multi_worker(tf.distribute.get_strategy()):
            self._dtype, value = "int64", tf.cast(value, "int64")
        original(self, value)

    return _initialize
