"""Data: workers do not ask each other before each batch, and none waits for one whose input has ended."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .agreement import rows_of_all
from .pipelines import Observed, calls_python
from .strategy import is_multi_worker
from .sums import has_number
from .untyped import Data, Function, Strategy

INFINITE = -1
UNKNOWN = -2
"""As in `tf.data.experimental.cardinality`."""
EQUAL_SHARDS = "_multiworker_equal_shards"
"""An attribute of a distributed dataset: how many steps each worker has data for, the same for all."""


class InputEndedError(RuntimeError):
    """This worker's input ended before that of its peers, which wait for its gradients now."""


def agree_on_length(original: Function) -> Function:
    """Where all shards have the same known length, nobody needs to ask before each batch who has one left.

    TensorFlow asks, by an all-reduce before each batch, unless the dataset is infinite.
    """

    def __init__(self: Any, distribute_strategy: Strategy = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, distribute_strategy, *args, **kwargs)
        if not is_multi_worker(distribute_strategy):
            return
        self._distributed_dataset = dataset = of_its_own_memory(self, distribute_strategy)
        if not hasattr(dataset, "_enable_get_next_as_optional"):
            return
        own = steps_known(self, len(distribute_strategy.extended.worker_devices))
        # Of what the user distributed by hand, Keras asks the length each time: it is set below.
        by_hand = not isinstance(getattr(self.data_adapter, "_dataset", None), (tf.data.Dataset, type(None)))
        batches = 0 if by_hand or self.steps_per_epoch else self.data_adapter.num_batches or 0
        _, rows = rows_of_all(distribute_strategy, [own, batches])
        check_lengths([int(length) for _, length in rows])
        everyones = {int(length) for length, _ in rows}
        if everyones == {own} and own > 0:  # cardinalities below 0 are no lengths
            dataset._enable_get_next_as_optional = False
            setattr(dataset, EQUAL_SHARDS, own)
        elif len(everyones) > 1:
            dataset._enable_get_next_as_optional = True
            dataset._cardinality = UNKNOWN

    return __init__


def check_lengths(batches: list[int]) -> None:
    """Keras ends an epoch after as many batches as this worker's dataset has, and knows nothing of the others'."""
    if len(set(batches)) > 1:
        told = ", ".join(f"{number or 'unknown'} on worker {index}" for index, number in enumerate(batches))
        raise InputEndedError(
            f"the workers' datasets have different numbers of batches: {told}. Give every worker the same number, or "
            "datasets that repeat, and `steps_per_epoch`."
        )


def of_its_own_memory(epoch_iterator: Any, strategy: Strategy) -> Data:
    """The distributed dataset, whose tensors share no memory with what a Python generator has yielded.

    TensorFlow takes NumPy arrays from Python without a copy. Cut into the parts of the replicas they look like tensors
    that nobody else has, and steps compute in their memory: the arrays of the user's program change.
    """
    distributed = epoch_iterator._distributed_dataset
    original = getattr(distributed, "_original_dataset", None)
    if not isinstance(original, tf.data.Dataset) or not calls_python(original):
        return distributed

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def copied(*element: Data) -> Data:
        leaves = tf.nest.flatten(element, expand_composites=True)
        leaves = [leaf if leaf is None or not has_number(leaf) else tf.raw_ops.DeepCopy(x=leaf) for leaf in leaves]
        packed = tf.nest.pack_sequence_as(element, leaves, expand_composites=True)
        return packed if isinstance(original.element_spec, tuple) else packed[0]

    pipeline = epoch_iterator.data_adapter.get_tf_dataset().map(copied)
    # Whoever drops the iterator waits for the thread that tunes it, and that can take as long as the epoch took.
    options = tf.data.Options()
    options.autotune.enabled = bool(original.options().autotune.enabled)
    return strategy.experimental_distribute_dataset(pipeline.with_options(options))


def steps_known(epoch_iterator: Any, replicas: int) -> int:
    """How many steps this worker has data for, before it looks."""
    if type(epoch_iterator.data_adapter).__name__ == "ArrayDataAdapter":
        # Every global batch is cut into as many parts as there are replicas, some of which may be empty.
        return int(epoch_iterator.data_adapter.num_batches)
    batches = int(epoch_iterator._distributed_dataset.cardinality)
    if batches > 0:
        return batches // replicas if batches % replicas == 0 else UNKNOWN
    return INFINITE if batches == INFINITE else UNKNOWN


def telling_iterators(dataset: Data, steps: int) -> Observed:
    """The dataset, whose iterators know how many steps they are good for."""
    return Observed(dataset, lambda iterator: setattr(iterator, EQUAL_SHARDS, steps))


def tell_iterators_their_length(original: Function) -> Function:
    def _get_iterator(self: Any) -> Any:
        dataset = original(self)
        steps = getattr(self._distributed_dataset, EQUAL_SHARDS, None)
        return dataset if steps is None else telling_iterators(dataset, steps)

    return _get_iterator


def tag_at_once(original: Function) -> Function:
    """Until 3.6 the epochs iterate over the attribute, and `_get_iterator` gives what it is made from."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        steps = getattr(self._distributed_dataset, EQUAL_SHARDS, None)
        if steps is not None:
            self._distributed_dataset = telling_iterators(self._distributed_dataset, steps)

    return __init__
