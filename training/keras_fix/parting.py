"""Parting: a worker that ends early takes its peers down with it, also while they wait for the last thing it sent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import tensorflow as tf

from .untyped import Strategy


def gather(strategy: Strategy, values: Sequence[int]) -> list[list[int]]:
    """The values of every replica, a row for each. Every worker has to call this at the same point."""
    row = tf.constant([list(values)], tf.int64)

    @tf.function  # type: ignore[untyped-decorator]
    def rows() -> Any:
        return strategy.run(lambda: tf.distribute.get_replica_context().all_gather(row, axis=0))

    table: list[list[int]] = strategy.experimental_local_results(rows())[0].numpy().tolist()
    return table


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
