"""The examples as `tf.data` pipelines, one a worker, through `strategy.distribute_datasets_from_function`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from training.data.digits import Examples
from training.data.order import Indices, local_batches, validation_pieces
from training.keras_fix.pipelines import keeping_iterators


def training_dataset(strategy: Any, examples: Examples, steps: Indices) -> Any:
    """Endless batches (images, labels); `steps` [steps, global_batch] names the examples of each step."""

    def worker_dataset(context: Any) -> Any:
        batches = local_batches(steps, context.num_replicas_in_sync, local_replicas(context))
        images, labels = map(tf.constant, examples)
        dataset = tf.data.Dataset.from_tensor_slices(batches)
        return endless(dataset.map(lambda batch: (tf.gather(images, batch), tf.gather(labels, batch))))

    return keeping_iterators(strategy.distribute_datasets_from_function(worker_dataset))


def validation_dataset(strategy: Any, examples: Examples, bounds: Indices) -> Any:
    """Batches (images, labels) that go through all `examples`, cut at `bounds`, again and again."""

    def worker_dataset(context: Any) -> Any:
        pieces = validation_pieces(bounds, context.num_replicas_in_sync, local_replicas(context))
        images, labels = map(tf.constant, examples)
        dataset = tf.data.Dataset.from_tensor_slices(pieces)
        return endless(dataset.map(lambda piece: (images[piece[0] : piece[1]], labels[piece[0] : piece[1]])))

    return keeping_iterators(strategy.distribute_datasets_from_function(worker_dataset))


def local_replicas(context: Any) -> range:
    """The replicas that one worker's pipeline feeds, by their number in the whole cluster."""
    each = context.num_replicas_in_sync // context.num_input_pipelines
    return range(context.input_pipeline_id * each, (context.input_pipeline_id + 1) * each)


def endless(dataset: Any) -> Any:
    """Repeat and prefetch.

    An endless dataset spares the workers a vote on "is there another batch?" before every step.
    """
    options = tf.data.Options()
    options.deterministic = True
    return dataset.repeat().prefetch(2).with_options(options)
