"""Parting: a worker that ends early takes its peers down with it, also while they wait for the last thing it sent."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import suppress

import tensorflow as tf

from .untyped import Data, Function, Strategy


def gather(strategy: Strategy, values: Sequence[int]) -> list[list[int]]:
    """The values of every replica, a row for each. Every worker has to call this at the same point."""
    rows = gathering(strategy, len(values))(tf.constant([list(values)], tf.int64))
    table: list[list[int]] = strategy.experimental_local_results(rows)[0].numpy().tolist()
    return table


@functools.cache  # TensorFlow warns of a function that is traced anew for each call
def gathering(strategy: Strategy, width: int) -> Function:
    def in_replica(row: Data) -> Data:
        row = tf.identity(row)  # on the replica's device: what is given to the function is on none
        return tf.distribute.get_replica_context().all_gather(row, axis=0)

    def rows(row: Data) -> Data:
        return strategy.run(in_replica, args=(row,))

    function: Function = tf.function(rows, input_signature=[tf.TensorSpec([1, width], tf.int64)], autograph=False)
    return function


def part(strategy: Strategy) -> None:
    """Return once every worker has come here, or has left.

    Who gets through has seen all others come, and they may leave before the rest has seen it: that is no error here.
    """
    with suppress(tf.errors.OpError):
        gather(strategy, [0])


def wait_for_all(strategy: Strategy) -> None:
    """Return once every worker has come here, and none needs this one any more to learn so."""
    gather(strategy, [0])
    part(strategy)
