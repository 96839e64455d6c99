"""A model's variables are made before its first step: within the step several replicas cannot make them."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator

import tensorflow as tf

from .stock import Announce, Data, Function, Model, is_multi_worker, keras_trainer


def build_from_spec(original: Function, announce: Announce) -> Function:
    def _maybe_symbolic_build(self: Model, iterator: Data = None, data_batch: Data = None) -> None:
        if iterator is not None and is_multi_worker(self._distribute_strategy):
            announce()
            iterator, data_batch = None, one_replica_batch(iterator)
            self.built = self.built or is_never_called(self)
        original(self, iterator=iterator, data_batch=data_batch)

    return _maybe_symbolic_build


def is_never_called(model: Model) -> bool:
    """Whether its `train_step` uses nothing but its parts, as a GAN's does: there is no `call`, so no way to build it.

    Without a strategy Keras never tries to.
    """
    return type(model).call is importlib.import_module("keras.src.models.model").Model.call


def one_replica_batch(epoch_iterator: Data) -> Data:
    """Something with the shapes and dtypes of one replica's batch: its spec, else (shapes unknown) a real batch."""
    map_structure = keras_trainer().tree.map_structure
    spec = one_replica_spec(epoch_iterator._distributed_dataset)
    if spec is not None:
        return spec
    *_, iterator = next(executions(epoch_iterator))
    local_values = epoch_iterator._distribute_strategy.experimental_local_results
    batch = map_structure(lambda value: local_values(value)[0], next(iterator))
    return map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, batch)


def executions(epoch_iterator: Data) -> Iterator[Data]:
    return iter(epoch_iterator.enumerate_epoch() if hasattr(epoch_iterator, "enumerate_epoch") else epoch_iterator)


def one_replica_spec(distributed: Data) -> Data:
    """The spec of one replica's batch from a distributed dataset, or an iterator of one; None: shapes are unknown."""
    tree = keras_trainer().tree
    spec = tree.map_structure(first_replica_spec, distributed.element_spec)
    return spec if all(leaf is None or leaf.shape.rank is not None for leaf in tree.flatten(spec)) else None


def first_replica_spec(spec: Data) -> Data:
    """The spec of the first replica's tensor; None for what is no tensor (a dataset carries None as a spec, too)."""
    first = spec._value_specs[0] if hasattr(spec, "_value_specs") else spec
    return first if hasattr(first, "dtype") else None


def built_before_it_predicts(original: Function, announce: Announce) -> Function:
    """Where a function creates variables, TensorFlow calls it in a branch: no place for several replicas of a worker.

    "You must feed a value for placeholder tensor 'cond/Placeholder'", says TensorFlow there.
    """

    def make_predict_function(self: Model, force: bool = False) -> Function | None:
        before = self.predict_function
        known: Function | None = original(self, force)
        if not is_multi_worker(self.distribute_strategy) or self.predict_function is before:
            return known
        announce()
        predict = self.predict_function

        def predict_function(data: Data) -> Data:
            if not all(layer.built for layer in self._flatten_layers()):
                build_for(self, data[0])
            return predict(data)

        self.predict_function = predict_function
        return known

    return make_predict_function


def build_for(model: Model, batch: Data) -> None:
    """Create the model's variables, as `fit` does before its first step."""
    keras, strategy, tree = importlib.import_module("keras"), model.distribute_strategy, keras_trainer().tree
    inputs = batch[0] if isinstance(batch, tuple) else batch

    def symbolic(value: Data) -> Data:
        tensor = strategy.experimental_local_results(value)[0]
        return keras.KerasTensor((None, *tensor.shape[1:]), tensor.dtype.name)

    with strategy.scope():
        importlib.import_module("keras.src.backend").compute_output_spec(
            model, tree.map_structure(symbolic, inputs), training=False
        )


def built_before_its_first_step(model: Model, function: Function) -> Function:
    """Until 3.4 nothing builds a model before its step is traced, where several replicas of a worker cannot."""
    if hasattr(model, "_maybe_symbolic_build"):
        return function

    def build_and_step(iterator: Data) -> Data:
        if isinstance(iterator, tf.distribute.DistributedIterator):
            batch = one_replica_spec(iterator)
        else:
            batch = next(iterator)
            iterator = itertools.chain([batch], iterator)
        model.built = model.built or is_never_called(model)
        if batch is not None:
            with model.distribute_strategy.scope():
                model._symbolic_build(data_batch=batch)
        return function(iterator)

    return build_and_step
