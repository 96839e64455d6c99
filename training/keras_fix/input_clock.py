"""How long training steps wait for their batch."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.framework.config import is_op_determinism_enabled
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from .untyped import Function, Model, Strategy, Variable


class InputClock:
    """Adds up the time that training steps wait for their batch, inside the graph that fetches it.

    The time is taken right before and after the fetch from this worker's own iterator, so that waiting for peers is no
    part of it.
    """

    def __init__(self) -> None:
        self._total: Variable = None
        self._listening_to: Model = None
        self._timed: weakref.WeakSet[Function] = weakref.WeakSet()
        """Train functions whose graph takes the time."""
        for name in ("_next_internal", "get_next_as_optional"):
            original = getattr(OwnedIterator, name)
            setattr(OwnedIterator, name, self._timing(original))

    def has_numbers(self) -> bool:
        """Whether the program computes eagerly, whatever it compiles."""
        return bool(tf.compat.v1.executing_eagerly_outside_functions())

    def prepare(self) -> None:
        """Make the sum, when TensorFlow has been set up by the program."""
        if self._total is None:
            # Not `tf.Variable`: within the scope of a strategy that would be one on all workers.
            with tf.init_scope(), tf.device("CPU:0"):
                self._total = ResourceVariable(0.0, dtype=tf.float64, trainable=False)

    def listen(self, model: Model) -> None:
        """What is traced from now on belongs to the training steps of this model."""
        # Deterministic programs may not ask for the time: TensorFlow refuses `tf.timestamp`.
        timed = fetches_first(model) and not is_op_determinism_enabled()
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
            model = self._listening_to
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
        with tf.control_dependencies(done), tf.device("CPU:0"):
            return tf.timestamp()


def fetches_first(model: Model) -> bool:
    """Whether a step does nothing before it has its batch."""
    strategy = model.distribute_strategy
    multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return model.steps_per_execution == 1 or (multi_worker and bool(strategy.cluster_resolver.cluster_spec()))


def local_replicas(strategy: Strategy) -> int:
    return len(strategy.extended.worker_devices) if strategy.num_replicas_in_sync > 1 else 1
