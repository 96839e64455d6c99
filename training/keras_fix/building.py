"""Building a model: its variables are made before its first step, for several replicas cannot make them in it."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator

import keras
import tensorflow as tf

from .log import announce
from .strategy import is_multi_worker, leaves_of, map_structure, of_first_replica
from .untyped import Data, Function, Model


def build_from_spec(original: Function) -> Function:
    """Keras averages whole batches over the workers to learn their shapes: "unsupported type PerReplica"."""

    def _maybe_symbolic_build(self: Model, iterator: Data = None, data_batch: Data = None) -> None:
        if iterator is not None and is_multi_worker(self._distribute_strategy):
            announce()
            iterator, data_batch = None, one_replica_batch(iterator)
            self.built = self.built or is_never_called(self)
        original(self, iterator=iterator, data_batch=data_batch)

    return _maybe_symbolic_build


def is_never_called(model: Model) -> bool:
    """Whether it has no `call`, and so cannot be built: a GAN's `train_step` calls the model's parts.

    Without a strategy Keras never tries to build it.
    """
    return type(model).call is keras.Model.call


def one_replica_batch(epoch_iterator: Data) -> Data:
    """Something with the shapes and dtypes of one replica's batch: its spec, else (shapes unknown) a real batch."""
    spec = one_replica_spec(epoch_iterator._distributed_dataset)
    if spec is not None:
        return spec
    *_, iterator = next(executions(epoch_iterator))
    batch = of_first_replica(epoch_iterator._distribute_strategy, next(iterator))
    return map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, batch)


def executions(epoch_iterator: Data) -> Iterator[Data]:
    """Of an epoch; `enumerate_epoch` came with Keras 3.5."""
    return iter(epoch_iterator.enumerate_epoch() if hasattr(epoch_iterator, "enumerate_epoch") else epoch_iterator)


def one_replica_spec(distributed: Data) -> Data:
    """The spec of one replica's batch from a distributed dataset, or an iterator of one; None: shapes are unknown."""
    spec = map_structure(first_replica_spec, distributed.element_spec)
    return spec if all(leaf is None or leaf.shape.rank is not None for leaf in leaves_of(spec)) else None


def first_replica_spec(spec: Data) -> Data:
    """The spec of the first replica's tensor; None for what is no tensor (a dataset carries None as a spec, too)."""
    first = spec._value_specs[0] if hasattr(spec, "_value_specs") else spec
    return first if hasattr(first, "dtype") else None


def built_before_it_predicts(original: Function) -> Function:
    """TensorFlow calls a function that creates variables within a branch, where several replicas of a worker cannot.

    "You must feed a value for placeholder tensor 'cond/Placeholder'", it says there.
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
    strategy = model.distribute_strategy
    inputs = of_first_replica(strategy, batch[0] if isinstance(batch, tuple) else batch)
    symbolic = map_structure(lambda x: keras.KerasTensor((None, *x.shape[1:]), x.dtype.name), inputs)
    with strategy.scope():
        importlib.import_module("keras.src.backend").compute_output_spec(model, symbolic, training=False)


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
