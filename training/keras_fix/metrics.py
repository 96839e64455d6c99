"""Metrics: the state of all of them travels in one all-reduce, when it is read."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from .agreement import unisons
from .log import announce
from .strategy import is_multi_worker, of_first_replica
from .sums import all_reduce, assign_here, has_number, sums
from .untyped import Data, Function, Model, Strategy

readers: weakref.WeakKeyDictionary[Model, tuple[list[Data], Function]] = weakref.WeakKeyDictionary()


class LocalLogs(dict[str, Any]):
    """The logs of a step as this worker has computed them, and what each of its replicas has."""

    per_replica: Data = None


def local_logs(model: Model, outputs: Data) -> Data:
    """What this worker has computed, without asking the others."""
    local = of_first_replica(model.distribute_strategy, outputs)
    if not isinstance(local, dict):
        return local
    logs = LocalLogs(local)
    logs.per_replica = outputs
    return logs


def read_at_the_end(original: Function) -> Function:
    """Keras reads each variable of each metric by a collective of its own.

    BatchNormalization's statistics drift apart on the way (keras-team/keras#19891).
    """

    def _get_metrics_result_or_logs(self: Model, logs: Data) -> Data:
        if not is_multi_worker(self.distribute_strategy):
            return original(self, logs)
        announce()
        read = read_logs(self, logs.per_replica if isinstance(logs, LocalLogs) else logs, at_the_end=True)
        if not isinstance(read, dict):
            return read
        # Not all versions of Keras make numbers of what `evaluate` returns.
        return {name: plain(value) for name, value in read.items()}

    return _get_metrics_result_or_logs


def plain(value: Data) -> Data:
    """A number, where Keras and its NumPy would make one of it, too."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def read_logs(model: Model, outputs: Data, at_the_end: bool = False) -> Data:
    """The logs of all workers' examples: what the metrics say, or the mean of what a step of the user's own returned.

    At the end of an epoch, and where callbacks look at weights, what drifted apart is averaged on the same way.
    """
    unison = unisons.get(model)
    with_drift = at_the_end or (unison is not None and unison.looks_at_batches and not unison.testing)
    metrics = unique(variable for metric in model.metrics for variable in metric.variables)
    drifting = drifting_of(model)
    known, reader = readers.get(model, ([], None))
    if reader is None or list(map(id, known)) != list(map(id, [*metrics, *drifting])):
        reader = reader_of(model, metrics)
        readers[model] = [*metrics, *drifting], reader
    return reader(without_python_numbers(outputs), with_drift and bool(drifting))


def without_python_numbers(outputs: Data) -> Data:
    """TensorFlow would trace a graph for each value of a Python number."""
    return tf.nest.map_structure(
        lambda leaf: tf.convert_to_tensor(leaf) if isinstance(leaf, (int, float)) else leaf, outputs
    )


def reader_of(model: Model, metrics: list[Data]) -> Function:
    """A function that makes of the outputs of a step what `read_logs` returns, in one all-reduce."""
    strategy = model.distribute_strategy
    replicas = strategy.num_replicas_in_sync

    def in_replica(outputs: Data, with_drift: bool) -> Data:
        from_metrics = isinstance(outputs, dict) and set(outputs) == set(model.get_metrics_result())
        leaves = tf.nest.flatten(outputs)
        means = [] if from_metrics else [i for i, leaf in enumerate(leaves) if leaf is not None and has_number(leaf)]
        drifting = [variable.value for variable in drifting_of(model)] if with_drift else []
        totals = iter(sums([*map(share_of, metrics), *(leaves[i] for i in means), *drifting]))
        state = [(variable, tf.cast(next(totals), variable.dtype)) for variable in metrics]
        for i in means:
            leaves[i] = tf.cast(next(totals) / replicas, tf.convert_to_tensor(leaves[i]).dtype)
        for variable in drifting:
            assign_here(variable, next(totals) / replicas)
        if not from_metrics:
            return tf.nest.pack_sequence_as(outputs, leaves)
        with keras.StatelessScope(state_mapping=state):
            return model.get_metrics_result()

    def read(outputs: Data, with_drift: bool) -> Data:
        logs = strategy.run(in_replica, args=(outputs, with_drift))
        return of_first_replica(strategy, logs)

    function: Function = tf.function(read, autograph=False, reduce_retracing=True)
    return function


def share_of(variable: Data) -> Data:
    """What this replica contributes to the sum that is the value of a metric's variable."""
    value = tf.convert_to_tensor(variable.value)
    context = tf.distribute.get_replica_context()
    aggregation = getattr(variable, "aggregation", "sum")
    if aggregation == "sum":
        return value
    if aggregation == "mean":
        return tf.cast(value, tf.float64) / context.num_replicas_in_sync
    return tf.where(tf.equal(context.replica_id_in_sync_group, 0), value, tf.zeros_like(value))


def unique(variables: Iterable[Data]) -> list[Data]:
    return list({id(variable): variable for variable in variables}.values())


def drifting_of(model: Model) -> list[Data]:
    """The floats of the layers' state that no replica tells the others about. Frozen weights are not among them."""
    state = (variable for layer in model._flatten_layers() for variable in layer._non_trainable_variables)
    return unique(variable for variable in state if is_on_its_own(variable) and variable.value.dtype.is_floating)


def is_on_its_own(variable: Any) -> bool:
    """Whether each replica has its own value. Until 3.8 Keras calls it "mean", unknown to TensorFlow."""
    named = getattr(variable, "aggregation", None)
    return named == "none" or (named == "mean" and variable.value.aggregation == tf.VariableAggregation.NONE)


def reduce_over_workers(original: Function) -> Function:
    """Keras averages scalars over their axis 0: "Invalid reduction dimension 0"."""
    operations = {"auto": "MEAN", "mean": "MEAN", "sum": "SUM"}

    def reduce_per_replica(values: Data, strategy: Strategy, reduction: str) -> Data:
        if reduction not in operations or not is_multi_worker(strategy):
            return original(values, strategy, reduction)
        announce()
        reduce_replica = functools.partial(all_reduce, operations[reduction])
        return of_first_replica(strategy, strategy.run(reduce_replica, args=(values,)))

    return reduce_per_replica


def leave_local_logs(original: Function) -> Function:
    """Until 3.5 `fit` makes numbers of the logs of each execution, and forgets what each replica has."""

    def _pythonify_logs(self: Model, logs: Data) -> Data:
        return logs if isinstance(logs, LocalLogs) else original(self, logs)

    return _pythonify_logs
