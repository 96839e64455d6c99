"""All functions of Keras that are replaced: by which sign each is recognised, and in which versions."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from .building import build_from_spec, built_before_it_predicts
from .callbacks import (
    after,
    agree_if_not_yet,
    agree_on_callbacks,
    before,
    begin_test,
    end_test,
    in_unison,
    stop_at_a_batch,
    stop_at_an_epoch,
)
from .data import agree_on_length, tag_at_once, tell_iterators_their_length
from .files import restore_everywhere, save_for_nothing, written_whole
from .losses import share_of_a_mean, share_of_what_is_added, track_all_of_a_loss
from .metrics import leave_local_logs, read_at_the_end, reduce_over_workers
from .optimizers import branch_outside_of_replicas, finite_everywhere, sum_first
from .recognising import Minor, Part
from .steps import once_and_not_by_each, steps_of_their_own, steps_without_reductions
from .variables import assign_unread, keep_apart, make_seeds_of_signed_numbers, of_this_replica

TF_OPTIMIZER = "keras.src.backend.tensorflow.optimizer"
CORE = "keras.src.backend.tensorflow.core"
LOSS = "keras.src.losses.loss"
SAVING = "keras.src.saving.saving_lib"


def parts_of(trainer: ModuleType, keras: Minor) -> list[Part]:
    """What may be replaced in a version of Keras."""
    parts = current_parts(trainer) + (older_parts(trainer) if keras <= NEWEST_OF_THE_OLDER else [])
    return [part for part in parts if part.since <= keras and (part.until is None or keras <= part.until)]


def current_parts(trainer: ModuleType) -> list[Part]:
    """What is, or was until some version, the same in all versions to this day."""
    model, epochs = trainer.TensorFlowTrainer, trainer.TFEpochIterator
    callbacks = trainer.callbacks_module
    hooks, backup, checkpoint = callbacks.CallbackList, callbacks.BackupAndRestore, callbacks.ModelCheckpoint
    optimizer = importlib.import_module(TF_OPTIMIZER).TFOptimizer
    scaling = trainer.optimizers_module.LossScaleOptimizer
    variable = importlib.import_module(CORE).Variable
    saving = importlib.import_module(SAVING)
    steps = "tf.while_loop( tf.cond( tf.function( reduce_per_replica("
    prediction = "self.predict_function=predict_function"
    branches = "ops.cond(is_update_step, ops.cond(should_overwrite_model_vars,"
    averages = "strategy.reduce( maybe_distributed_data_batch"
    distributed = "self._distributed_dataset"
    alone = functools.partial(Part, stands_alone=True)
    return [
        Part("fit", model, "fit", in_unison, "self x", "callbacks_module.CallbackList("),
        Part("fit", model, "evaluate", in_unison, "self x", "callbacks_module.CallbackList("),
        alone("fit", model, "_maybe_symbolic_build", build_from_spec, "self iterator data_batch", averages, (3, 5)),
        alone("fit", model, "make_predict_function", built_before_it_predicts, "self force", prediction),
        Part("fit", model, "_make_function", steps_without_reductions, "self step_function", steps, (3, 7)),
        alone("fit", model, "predict_on_batch", once_and_not_by_each, "self x", "self.predict_function([(x,)])"),
        Part("metrics", model, "_get_metrics_result_or_logs", read_at_the_end, "self logs", "get_metrics_result()"),
        alone("metrics", trainer, "reduce_per_replica", reduce_over_workers, "values strategy reduction", "axis=0)"),
        Part("input", epochs, "__init__", agree_on_length, "self distribute_strategy", "_dataset=dataset"),
        Part("input", epochs, "_get_iterator", tell_iterators_their_length, "self", distributed, (3, 7)),
        Part("callbacks", hooks, "__init__", agree_on_callbacks, "self callbacks", "self.set_model(model)"),
        Part("callbacks", hooks, "on_train_begin", before(agree_if_not_yet), "self logs", "callback.on_train_begin("),
        Part(
            "callbacks",
            hooks,
            "on_train_batch_end",
            after(stop_at_a_batch),
            "self batch logs",
            "_on_train_batch_",
            (3, 6),
        ),
        Part("callbacks", hooks, "on_epoch_end", after(stop_at_an_epoch), "self epoch logs", "callback.on_epoch_end("),
        Part("callbacks", hooks, "on_test_begin", before(begin_test), "self logs", "callback.on_test_begin("),
        Part("callbacks", hooks, "on_test_end", before(end_test), "self logs", "callback.on_test_end("),
        Part("callbacks", backup, "on_train_begin", restore_everywhere, "self logs", "self._load_model()", (3, 7)),
        Part("callbacks", checkpoint, "_save_model", save_for_nothing, "self epoch", "self.model.save("),
        alone("files", saving, "save_model", written_whole, "model filepath", 'open(filepath,"wb")'),
        alone("files", saving, "save_weights_only", written_whole, "model filepath", "H5IOStore(filepath"),
        alone("optimizers", scaling, "check_finite", finite_everywhere, "self grads", "ops.isfinite("),
        alone("optimizers", optimizer, "_backend_apply_gradients", branch_outside_of_replicas, "self grads", branches),
        alone("metrics", variable, "_direct_assign", assign_unread, "self value", "self._value.assign("),
        alone("scalars", variable, "__float__", of_this_replica, "self", "float(self.value)", (3, 5)),
        alone("scalars", variable, "__int__", of_this_replica, "self", "int(self.value)", (3, 5)),
    ]


NEWEST_OF_THE_OLDER: Minor = (3, 9)
"""The newest version that has any of `older_parts`."""


def older_parts(trainer: ModuleType) -> list[Part]:
    """What newer versions do not have any more, or do rightly."""
    model, epochs = trainer.TensorFlowTrainer, trainer.TFEpochIterator
    hooks, backup = trainer.callbacks_module.CallbackList, trainer.callbacks_module.BackupAndRestore
    optimizer = importlib.import_module(TF_OPTIMIZER).TFOptimizer
    variable, losses = importlib.import_module(CORE).Variable, importlib.import_module(LOSS)
    mean = trainer.metrics_module.Mean
    train, test = (functools.partial(steps_of_their_own, kind) for kind in ("train", "test"))
    steps, batch_end = "multi_step_on_iterator reduce_per_replica(", "callback.on_train_batch_end("
    given = "self x y y_pred sample_weight"
    to_3_4, to_3_5, to_3_6, to_3_7 = (functools.partial(Part, until=(3, minor)) for minor in (4, 5, 6, 7))
    return [
        to_3_4("layers", variable, "_initialize", make_seeds_of_signed_numbers, "self value", "=tf.Variable("),
        to_3_4("optimizers", optimizer, "_backend_update_step", sum_first, "self grads", "list(zip(grads,"),
        to_3_5("metrics", model, "_pythonify_logs", leave_local_logs, "self logs", "float(value)"),
        to_3_5("callbacks", hooks, "on_train_batch_end", after(stop_at_a_batch), "self batch", batch_end),
        to_3_6("fit", model, "make_train_function", train, "self force", steps),
        to_3_6("fit", model, "make_test_function", test, "self force", steps),
        to_3_6("input", epochs, "__init__", tag_at_once, "self distribute_strategy", "=self._get_iterator()"),
        to_3_6("callbacks", backup, "on_train_begin", restore_everywhere, "self logs", "self.model.load_weights("),
        to_3_7("losses", losses, "reduce_values", share_of_a_mean, "values", "loss=ops.sum(values)"),
        to_3_7("losses", model, "compute_loss", share_of_what_is_added, given, "self.losses"),
        to_3_7("losses", mean, "update_state", track_all_of_a_loss, "self values", "self.total.assign"),
        Part("metrics", variable, "_map_aggregation", keep_apart, "self", "aggregation]", (3, 7), (3, 9)),
    ]
