"""What the workers tell each other, and what they know of each other during one `fit` or `evaluate`."""

from __future__ import annotations

import json
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from .strategy import of_first_replica
from .untyped import Callback, Data, Function, Model, Strategy


class Redirection(NamedTuple):
    """A callback that writes into a temporary directory, and where it wrote before."""

    callback: Callback
    scratch: Path
    before: dict[str, Any]


@dataclass(eq=False)
class Unison:
    """What the workers know of each other during one `fit` or `evaluate` of a model."""

    strategy: Strategy
    testing: bool = False
    agreed: bool = False
    reads_batches: bool = False
    """Some worker has a callback that reads the logs of training batches."""
    reads_test_batches: bool = False
    looks_at_batches: bool = False
    """Some worker has a callback that may stop the training, or save weights, after any batch."""
    shares_backup: bool = False
    """All workers restore from the chief's backup."""
    stop_later: bool = False
    """`stop_training` was set here at a batch, after which the others do not ask for it."""
    redirections: list[Redirection] = field(default_factory=list)

    @property
    def reads(self) -> bool:
        """Whether anybody reads the logs of the batches that are computed now."""
        return self.reads_test_batches if self.testing else self.reads_batches


unisons: weakref.WeakKeyDictionary[Model, Unison] = weakref.WeakKeyDictionary()
exchanges: weakref.WeakKeyDictionary[Strategy, Function] = weakref.WeakKeyDictionary()


def unison_of(container: Any) -> Unison | None:
    model = getattr(container, "model", None)
    return None if model is None else unisons.get(model)


def everyones(strategy: Strategy, value: Any) -> tuple[int, list[Any]]:
    """Own index, and the value (anything that JSON can tell) of every worker, the chief's first. All must call this."""
    own = list(json.dumps(value).encode())
    index, lengths = rows_of_all(strategy, [len(own)])
    longest = max(int(length) for [length] in lengths)
    _, rows = rows_of_all(strategy, own + [0] * (longest - len(own)))
    texts = (bytes(int(number) for number in row[: int(length)]) for row, [length] in zip(rows, lengths))
    return index, [json.loads(text) for text in texts]


def rows_of_all(strategy: Strategy, numbers: list[int]) -> tuple[int, list[list[float]]]:
    """Own index, and as many numbers of every worker, in one all-reduce. All must call this."""
    if strategy not in exchanges:
        exchanges[strategy] = exchange_of(strategy)
    index, table = exchanges[strategy](tf.constant(numbers, dtype="float64"))
    return int(index), table.numpy().tolist()


def exchange_of(strategy: Strategy) -> Function:
    """A function that gives each worker a table of all workers' numbers: each adds its own row, and zeros elsewhere."""
    here = len(strategy.extended.worker_devices)
    workers = strategy.num_replicas_in_sync // here

    def in_replica(numbers: Data) -> tuple[Data, Data]:
        context = tf.distribute.get_replica_context()
        replica = tf.convert_to_tensor(context.replica_id_in_sync_group)
        index = replica // here
        mine = tf.where(replica % here == 0, numbers, tf.zeros_like(numbers))
        row = tf.one_hot(index, workers, dtype=tf.float64)
        return index, context.all_reduce("SUM", row[:, None] * mine[None, :])

    def exchange(numbers: Data) -> Data:
        return of_first_replica(strategy, strategy.run(in_replica, args=(numbers,)))

    function: Function = tf.function(exchange, input_signature=[tf.TensorSpec([None], tf.float64)], autograph=False)
    return function


def any_worker(strategy: Strategy, flag: bool) -> bool:
    """Whether the flag is set on any worker. All must call this."""
    _, rows = rows_of_all(strategy, [int(bool(flag))])
    return any(value > 0 for [value] in rows)
