"""Optimizers: all replicas decide alike, and branch across the replicas, where TensorFlow allows a collective."""

from __future__ import annotations

import inspect
from typing import Any

import tensorflow as tf

from .log import announce
from .strategy import is_multi_worker
from .untyped import Data, Function, Strategy


def finite_everywhere(original: Function) -> Function:
    """Each worker would skip a step by its own first replica's gradients, and wait for ever for those that do not."""

    def check_finite(self: Any, grads: Data) -> Data:
        finite = original(self, grads)
        if not is_multi_worker(tf.distribute.get_strategy()) or tf.distribute.in_cross_replica_context():
            return finite
        announce()
        infinite = tf.cast(tf.logical_not(finite), tf.float32)
        return tf.equal(tf.distribute.get_replica_context().all_reduce("SUM", infinite), 0)

    return check_finite


def branch_outside_of_replicas(original: Function) -> Function:
    """Accumulating gradients, and overwriting variables by their averages, needs no collective in a replica's branch.

    Keras does more here, depending on its version: since 3.5 it clips and decays, until 3.9 it counts the iterations.
    """
    source = inspect.getsource(original)
    clips, counts = "self._clip_gradients(" in source, "iterations.assign_add(1)" in source

    def _backend_apply_gradients(self: Any, grads: Data, trainable_variables: Data) -> None:
        branches = self.gradient_accumulation_steps or (self.use_ema and self.ema_overwrite_frequency)
        if not branches or not is_multi_worker(self._distribution_strategy):
            original(self, grads, trainable_variables)
            return
        announce()
        variables = list(trainable_variables)
        apply_or_accumulate(self, list(grads), variables, clips)
        if self.use_ema:
            self._update_model_variables_moving_average(self._trainable_variables)
            if self.ema_overwrite_frequency:
                overwrite_by_averages(self)
        if counts:
            counted_iterations(self).assign_add(1)

    return _backend_apply_gradients


def counted_iterations(optimizer: Any) -> Any:
    """The variable that counts; since 3.5 `iterations` counts updates, of which several iterations may make one."""
    return optimizer._iterations if hasattr(optimizer, "_iterations") else optimizer.iterations


def apply_or_accumulate(optimizer: Any, grads: list[Data], variables: list[Data], clips: bool) -> None:
    """What Keras does with the gradients of a step, in replica context."""
    steps = optimizer.gradient_accumulation_steps
    kept = [optimizer._accumulated_gradients[optimizer._get_variable_index(v)] for v in variables] if steps else []

    def update(grads: list[Data]) -> None:
        means = [(grad + other) / steps for grad, other in zip(grads, kept)] if steps else grads
        if clips:
            means = optimizer._clip_gradients(means)
            optimizer._apply_weight_decay(variables)
        optimizer._backend_update_step(means, variables, optimizer.learning_rate)
        if steps:
            optimizer._backend_reset_gradient_accumulators()

    def accumulate(grads: list[Data]) -> None:
        optimizer._backend_increment_gradient_accumulators(grads, kept)

    def across_replicas(strategy: Strategy, grads: list[Data]) -> None:
        def on_each(function: Function) -> Function:
            return lambda: [strategy.extended.call_for_each_replica(function, args=(grads,)), None][1]

        due = (counted_iterations(optimizer) + 1) % steps == 0
        tf.cond(due, on_each(update), on_each(accumulate))

    if steps:
        tf.distribute.get_replica_context().merge_call(across_replicas, args=(grads,))
    else:
        update(grads)


def overwrite_by_averages(optimizer: Any) -> None:
    """When they are due; called in replica context."""

    def across_replicas(_: Strategy) -> None:
        due = (optimizer.iterations + 1) % optimizer.ema_overwrite_frequency == 0
        overwrite = optimizer._overwrite_model_variables_with_average_value
        tf.cond(due, lambda: [overwrite(optimizer._trainable_variables), None][1], lambda: None)

    tf.distribute.get_replica_context().merge_call(across_replicas)


def sum_first(original: Function) -> Function:
    """Until 3.4 the gradients would be summed where no replica can: each replica would apply its own."""

    def _backend_update_step(self: Any, grads: Data, trainable_variables: Data, learning_rate: Data) -> None:
        if is_multi_worker(self._distribution_strategy) and not tf.distribute.in_cross_replica_context():
            announce()
            summed = self._all_reduce_sum_gradients(list(zip(grads, trainable_variables)))
            grads = [grad for grad, _ in summed]
        original(self, grads, trainable_variables, learning_rate)

    return _backend_update_step
