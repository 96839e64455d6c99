"""Steps: a step reduces nothing but the gradients, which the mathematics needs."""

from __future__ import annotations

import functools
import importlib
import threading

import tensorflow as tf

from .agreement import unisons
from .building import built_before_its_first_step
from .data import EQUAL_SHARDS, INFINITE, InputEndedError
from .log import announce, say_once
from .metrics import local_logs, read_logs
from .strategy import is_multi_worker, map_structure
from .untyped import Data, Function, Model


def steps_without_reductions(original: Function) -> Function:
    """Keras reduces every metric in every step, and calls the step as a `tf.function` of its own in a loop.

    A collective inside a function that is called from a loop cannot be given its key: the step is traced into the loop.
    """

    def _make_function(self: Model, step_function: Function) -> Function:
        if not is_multi_worker(self.distribute_strategy):
            stock: Function = original(self, step_function)
            return stock
        announce()
        return function_of_steps(self, step_function)

    return _make_function


def function_of_steps(model: Model, step_function: Function) -> Function:
    """What `fit` or `evaluate` calls for each execution."""
    on_batch, on_iterator = traced_steps(model, known_as_step(model, step_function))

    def function(iterator: Data) -> Data:
        if isinstance(iterator, tf.distribute.DistributedIterator):
            outputs = outputs_of(model, on_iterator, iterator)
            unison = unisons.get(model)
            return read_logs(model, outputs) if unison is None or unison.reads else local_logs(model, outputs)
        for _, data in zip(range(model.steps_per_execution), iterator):
            outputs = on_batch(data)
        return read_logs(model, outputs)

    return function


class CurrentStep(threading.local):
    """The model whose step this replica computes now; None: it is in no step."""

    model: Model = None

    @property
    def replicas(self) -> int:
        return 1 if self.model is None else int(self.model.distribute_strategy.num_replicas_in_sync)


current_step = CurrentStep()


def known_as_step(model: Model, step_function: Function) -> Function:
    """The step, which says of itself that it is one: losses are shared by the replicas in steps only."""

    def step(data: Data) -> Data:
        outer, current_step.model = current_step.model, model
        try:
            return step_function(data)
        finally:
            current_step.model = outer

    return step


def traced_steps(model: Model, step_function: Function) -> tuple[Function, Function]:
    """A function of one batch, and one of an iterator that does up to `steps_per_execution` steps.

    The second raises `OutOfRangeError` where the iterator has no batch left to begin with.
    """
    strategy, steps = model.distribute_strategy, model.steps_per_execution
    # As in Keras itself, AutoGraph does not touch the user's `train_step`.
    compiled = functools.partial(tf.function, autograph=False, reduce_retracing=True)

    def run(data: Data) -> Data:
        return strategy.run(step_function, args=(data,))

    if model.jit_compile is True and strategy.num_replicas_in_sync > 1:
        say_once("jit_compile=True: XLA cannot compile an all-reduce between workers, the steps run without it")
    elif model.jit_compile is True and not model.run_eagerly:
        run = compiled(run, jit_compile=True)
    # None travels through a distributed dataset as an Optional; Keras before 3.12 does not convert it back.
    step = model._autoconvert_optionals(run) if hasattr(model, "_autoconvert_optionals") else run

    def steps_on_iterator(iterator: Data) -> Data:
        batch = iterator.get_next()
        if steps == 1:
            return step(batch)

        def next_step(done: Data, _: Data, outputs: Data) -> tuple[Data, Data, Data]:
            following = next_or_none(iterator)
            more = following.has_value()
            return done + 1, more, tf.cond(more, lambda: step(following.get_value()), lambda: outputs)

        # At the end of the data nothing may happen, not even what needs no data: `optimizer.iterations` counts steps.
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            first = (tf.constant(1), tf.constant(True), step(batch))
        *_, outputs = tf.while_loop(lambda done, more, _: tf.logical_and(done < steps, more), next_step, first)
        return outputs

    if model.run_eagerly:
        return step, steps_on_iterator
    return compiled(step), compiled(steps_on_iterator)


def once_and_not_by_each(original: Function) -> Function:
    """All replicas predict the same batch, and Keras returns the rows of each: one after the other."""

    def predict_on_batch(self: Model, x: Data) -> Data:
        outputs = original(self, x)
        if not is_multi_worker(self.distribute_strategy):
            return outputs
        announce()
        replicas = self.distribute_strategy.num_replicas_in_sync
        return map_structure(lambda rows: rows[: len(rows) // replicas], outputs)

    return predict_on_batch


def next_or_none(iterator: Data) -> Data:
    """The next batch as an Optional that is empty on all workers alike."""
    if iterator._enable_get_next_as_optional or iterator._cardinality == INFINITE:
        return iterator.get_next_as_optional()
    optionals = iterator._iterators[0].get_next_as_optional_list()
    per_replica = importlib.import_module("tensorflow.python.distribute.input_lib")._create_per_replica
    return tf.cond(
        optionals[0].has_value(),
        lambda: tf.experimental.Optional.from_value(
            per_replica([optional.get_value() for optional in optionals], iterator._strategy)
        ),
        lambda: tf.experimental.Optional.empty(iterator._element_spec),
    )


def outputs_of(model: Model, on_iterator: Function, iterator: Data) -> Data:
    """What an execution returns.

    Raises:
        OutOfRangeError: the data have ended for all.
        InputEndedError: they have ended here, before they ended for all.
    """
    done = getattr(iterator, "_multiworker_steps", 0)
    try:
        outputs = on_iterator(iterator)
    except (tf.errors.OutOfRangeError, StopIteration) as error:
        if iterator._enable_get_next_as_optional:
            raise
        promised = getattr(iterator, EQUAL_SHARDS, None) if iterator._cardinality != INFINITE else None
        if iterator._cardinality == INFINITE or (promised is not None and done < promised):
            raise InputEndedError(
                f"the input of this worker ended after {done} steps, while its peers go on and wait for its gradients. "
                "Its shard is shorter than its dataset says (an infinite `repeat()`, or `assert_cardinality`): give "
                "every worker the same number of batches, or let `tf.data` find the length."
            ) from error
        raise
    iterator._multiworker_steps = done + model.steps_per_execution
    return outputs


def steps_of_their_own(kind: str, original: Function) -> Function:
    """Until 3.6 `make_train_function` and `make_test_function` are alike, and have no `_make_function` in common."""

    def make_function(self: Model, force: bool = False) -> Function | None:
        known = getattr(self, f"{kind}_function")
        if not is_multi_worker(self.distribute_strategy) or (known is not None and not force):
            stock: Function | None = original(self, force)
            return stock
        announce()
        function = function_of_steps(self, getattr(self, f"{kind}_step"))
        setattr(self, f"{kind}_function", built_before_its_first_step(self, function))
        return None

    return make_function
