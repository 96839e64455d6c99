"""Metrics: the state of all of them travels in one all-reduce, when it is read."""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from .agreement import unisons
from .stock import Announce, Data, Function, Model, Strategy, is_multi_worker, keras_trainer
from .sums import all_reduce, assign_here, is_number, sums

readers: weakref.WeakKeyDictionary[Model, tuple[list[Data], Function]] = weakref.WeakKeyDictionary()


class LocalLogs(dict[str, Any]):
    """The logs of a step as this worker has computed them, and what each of its replicas has."""

    per_replica: Data = None


def local_logs(model: Model, outputs: Data) -> Data:
    local_results = model.distribute_strategy.experimental_local_results
    local = keras_trainer().tree.map_structure(lambda value: local_results(value)[0], outputs)
    if not isinstance(local, dict):
        return local
    logs = LocalLogs(local)
    logs.per_replica = outputs
    return logs


def read_at_the_end(original: Function, announce: Announce) -> Function:
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
    drifting = drifting_of(model) if with_drift else []
    known, reader = readers.get(model, ([], None))
    if reader is None or [id(v) for v in known] != [id(v) for v in [*metrics, *drifting_of(model)]]:
        reader = reader_of(model, metrics)
        readers[model] = [*metrics, *drifting_of(model)], reader
    return reader(without_python_numbers(outputs), bool(drifting))


def without_python_numbers(outputs: Data) -> Data:
    """For each number of Python TensorFlow would trace a graph of its own."""
    return tf.nest.map_structure(
        lambda leaf: tf.convert_to_tensor(leaf) if isinstance(leaf, (int, float)) else leaf, outputs
    )


def reader_of(model: Model, metrics: list[Data]) -> Function:
    strategy = model.distribute_strategy
    replicas = strategy.num_replicas_in_sync

    def in_replica(outputs: Data, with_drift: bool) -> Data:
        leaves = tf.nest.flatten(outputs)
        numbers = [i for i, leaf in enumerate(leaves) if leaf is not None and is_number(tf.convert_to_tensor(leaf))]
        drifting = [variable.value for variable in drifting_of(model)] if with_drift else []
        if isinstance(outputs, dict) and set(outputs) == set(model.get_metrics_result()):
            numbers = []
        given = [share_of(variable) for variable in metrics]
        totals = sums([*given, *[leaves[i] for i in numbers], *drifting])
        of_metrics, rest = totals[: len(metrics)], [total / replicas for total in totals[len(metrics) :]]
        for i, mean in zip(numbers, rest):
            leaves[i] = tf.cast(mean, tf.convert_to_tensor(leaves[i]).dtype)
        for variable, mean in zip(drifting, rest[len(numbers) :]):
            assign_here(variable, mean)
        logs = tf.nest.pack_sequence_as(outputs, leaves)
        scope = importlib.import_module("keras").StatelessScope
        known = [(v, tf.cast(total, v.dtype)) for v, total in zip(metrics, of_metrics)]
        with scope(state_mapping=known):
            results = model.get_metrics_result()
        same = isinstance(logs, dict) and set(logs) == set(results)
        return results if same else logs

    def read(outputs: Data, with_drift: bool) -> Data:
        logs = strategy.run(in_replica, args=(outputs, with_drift))
        return keras_trainer().tree.map_structure(lambda value: strategy.experimental_local_results(value)[0], logs)

    function: Function = tf.function(read, autograph=False, reduce_retracing=True)
    return function


def share_of(variable: Data) -> Data:
    """What this replica adds to the value of a metric's variable."""
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


def reduce_over_workers(original: Function, announce: Announce) -> Function:
    operations = {"auto": "MEAN", "mean": "MEAN", "sum": "SUM"}

    def reduce_per_replica(values: Data, strategy: Strategy, reduction: str) -> Data:
        if reduction not in operations or not is_multi_worker(strategy):
            return original(values, strategy, reduction)
        announce()
        reduce_replica = functools.partial(all_reduce, operations[reduction])
        reduced = strategy.run(reduce_replica, args=(values,))
        return keras_trainer().tree.map_structure(lambda value: strategy.experimental_local_results(value)[0], reduced)

    return reduce_per_replica


def leave_local_logs(original: Function, _: Announce) -> Function:
    """Until 3.5 `fit` makes numbers of the logs of each execution, and forgets what each replica has."""

    def _pythonify_logs(self: Model, logs: Data) -> Data:
        return logs if isinstance(logs, LocalLogs) else original(self, logs)

    return _pythonify_logs
