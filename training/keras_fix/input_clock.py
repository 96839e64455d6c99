"""How long training steps wait for their batch."""

from __future__ import annotations

import functools
import importlib
import weakref
from types import ModuleType
from typing import Any

from .untyped import Function, Model, Strategy, Variable


class InputClock:
    """Adds up the time that training steps wait for their batch, inside the graph that fetches it.

    The time is taken right before and after the fetch from this worker's own iterator, so that waiting for peers is no
    part of it.
    """

    def __init__(self, tf: ModuleType) -> None:
        iterator_ops = importlib.import_module("tensorflow.python.data.ops.iterator_ops")
        # Deterministic programs may not ask for the time: TensorFlow refuses `tf.timestamp`.
        self._is_determinism_enabled = importlib.import_module(
            "tensorflow.python.framework.config"
        ).is_op_determinism_enabled
        self._resource_variable_ops = importlib.import_module("tensorflow.python.ops.resource_variable_ops")
        self._tf = tf
        self._total: Variable = None
        self._listening_to: Model = None
        self._timed: weakref.WeakSet[Function] = weakref.WeakSet()
        """Train functions whose graph takes the time."""
        for name in ("_next_internal", "get_next_as_optional"):
            original = getattr(iterator_ops.OwnedIterator, name)
            setattr(iterator_ops.OwnedIterator, name, self._timing(original))

    def has_numbers(self) -> bool:
        """Whether the program computes eagerly, whatever it compiles."""
        return bool(self._tf.compat.v1.executing_eagerly_outside_functions())

    def prepare(self) -> None:
        """Make the sum, when TensorFlow has been set up by the program."""
        if self._total is None:
            # Not `tf.Variable`: within the scope of a strategy that would be one on all workers.
            with self._tf.init_scope(), self._tf.device("CPU:0"):
                self._total = self._resource_variable_ops.ResourceVariable(0.0, dtype=self._tf.float64, trainable=False)

    def listen(self, model: Model) -> None:
        """What is traced from now on belongs to the training steps of this model."""
        timed = fetches_first(self._tf, model) and not self._is_determinism_enabled()
        self._listening_to = model if timed else None

    def ignore(self) -> None:
        self._listening_to = None

    def seconds(self, model: Model) -> float | None:
        """The sum so far for one replica; None: it is not known of this model."""
        if model.train_function not in self._timed:
            return None
        return float(self._total.numpy()) / local_replicas(model.distribute_strategy)

    def _timing(self, original: Function) -> Function:
        @functools.wraps(original)
        def fetch(iterator: Any) -> Any:
            model, tf = self._listening_to, self._tf
            if model is None or model.train_function is None or tf.executing_eagerly():
                return original(iterator)
            self._timed.add(model.train_function)
            before = self._now([])
            with tf.control_dependencies([before]):
                batch = original(iterator)
            after = self._now(tf.nest.flatten(batch, expand_composites=True))
            self._total.assign_add(after - before, read_value=False)
            return batch

        return fetch

    def _now(self, done: list[Any]) -> Any:
        with self._tf.control_dependencies(done), self._tf.device("CPU:0"):
            return self._tf.timestamp()


def fetches_first(tf: ModuleType, model: Model) -> bool:
    """Whether a step does nothing before it has its batch."""
    strategy = model.distribute_strategy
    multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return model.steps_per_execution == 1 or (multi_worker and bool(strategy.cluster_resolver.cluster_spec()))


def local_replicas(strategy: Strategy) -> int:
    return len(strategy.extended.worker_devices) if strategy.num_replicas_in_sync > 1 else 1
