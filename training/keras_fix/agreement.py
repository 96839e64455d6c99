"""What the workers tell each other, and what they know of each other during one `fit` or `evaluate`."""

from __future__ import annotations

import json
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from .stock import Callback, Data, Function, Model, Strategy


class Redirection(NamedTuple):
    """A callback that writes into a temporary directory, and where it wrote before."""

    callback: Callback
    scratch: Path
    before: dict[str, Any]


class Unison:
    """What the workers know of each other during one `fit` or `evaluate` of a model."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.testing = False
        self.agreed = False
        self.reads_batches = False
        """Some worker has a callback that reads the logs of training batches."""
        self.reads_test_batches = False
        self.looks_at_batches = False
        """Some worker has a callback that may stop the training, or save weights, after any batch."""
        self.shares_backup = False
        """All workers restore from the chief's backup."""
        self.stop_later = False
        """Here `stop_training` was set at a batch, where the others do not ask for it."""
        self.redirections: list[Redirection] = []

    @property
    def reads(self) -> bool:
        """Whether the logs of the batches of now are read."""
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
    """Own index, and as many numbers of every worker, in one all-reduce."""
    if strategy not in exchanges:
        exchanges[strategy] = exchange_of(strategy)
    index, table = exchanges[strategy](tf.constant(numbers, dtype="float64"))
    return int(index), table.numpy().tolist()


def exchange_of(strategy: Strategy) -> Function:
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
        results = strategy.run(in_replica, args=(numbers,))
        return tf.nest.map_structure(lambda value: strategy.experimental_local_results(value)[0], results)

    function: Function = tf.function(exchange, input_signature=[tf.TensorSpec([None], tf.float64)], autograph=False)
    return function


def any_worker(strategy: Strategy, flag: bool) -> bool:
    _, rows = rows_of_all(strategy, [int(bool(flag))])
    return any(value > 0 for [value] in rows)
