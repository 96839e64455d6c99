"""Losses before Keras 3.8: a replica's loss is its share of the mean over the global batch."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import tensorflow as tf

from .steps import current_step
from .untyped import Data, Function, Model


def share_of_a_mean(original: Function) -> Function:
    """Until 3.7 each replica's loss is the mean of its own examples, and the sum of their gradients is too large.

    Until 3.6 the mean of no examples is no number.
    """
    arguments = inspect.signature(original)

    def reduce_values(*args: Any, **kwargs: Any) -> Data:
        loss = original(*args, **kwargs)
        given = arguments.bind(*args, **kwargs)
        given.apply_defaults()
        values, reduction = given.arguments["values"], given.arguments["reduction"]
        is_mean = reduction in ("sum_over_batch_size", "mean", "mean_with_sample_weight")
        if current_step.replicas == 1 or not is_mean or tuple(values.shape) in ((), (0,)):
            return loss
        return tf.math.multiply_no_nan(loss, tf.cast(tf.size(values) > 0, loss.dtype) / current_step.replicas)

    return reduce_values


def share_of_what_is_added(original: Function) -> Function:
    """The same as `share_of_a_mean`, for regularizers and `add_loss`."""

    def compute_loss(
        self: Model, x: Data = None, y: Data = None, y_pred: Data = None, sample_weight: Data = None, **kwargs: Any
    ) -> Data:
        if current_step.replicas == 1 or not self.losses:
            return original(self, x, y, y_pred, sample_weight, **kwargs)
        ops = keras.ops
        own = None if self._compile_loss is None else self._compile_loss(y, y_pred, sample_weight)
        added = [tf.reduce_sum(ops.cast(loss, "float32")) / current_step.replicas for loss in self.losses]
        return ops.sum(added if own is None else [own, *added])

    return compute_loss


def track_all_of_a_loss(original: Function) -> Function:
    """The logs tell the loss of the whole batch, as with one replica."""

    def update_state(self: Any, values: Data, sample_weight: Data = None) -> Any:
        if current_step.replicas > 1 and any(self is tracker for tracker in trackers_of_losses(current_step.model)):
            values = values * current_step.replicas
        return original(self, values, sample_weight)

    return update_state


def trackers_of_losses(model: Model) -> list[Any]:
    return [model._loss_tracker, *getattr(model._compile_loss, "metrics", [])]
