"""Sums of many numbers over all replicas, in one collective. Called in replica context."""

from __future__ import annotations

import tensorflow as tf

from .untyped import Data


def assign_here(variable: Data, value: Data) -> None:
    """Set this replica's copy of a distributed variable."""
    local = variable._get_on_device_or_primary() if hasattr(variable, "_get_on_device_or_primary") else variable
    local.assign(tf.cast(value, local.dtype))


def sums(values: list[Data]) -> list[Data]:
    """The sum of each over all replicas, as float64.

    32-bit integers and floats keep their value in float64.
    """
    if not values:
        return []
    tensors = [tf.convert_to_tensor(value) for value in values]
    flat = [tf.reshape(tf.cast(tensor, tf.float64), [-1]) for tensor in tensors]
    summed = tf.distribute.get_replica_context().all_reduce("SUM", tf.concat(flat, axis=0))
    parts = tf.split(summed, [tf.size(part) for part in flat], num=len(flat))
    return [tf.reshape(part, tf.shape(tensor)) for part, tensor in zip(parts, tensors)]


def has_number(value: Data) -> bool:
    dtype = tf.convert_to_tensor(value).dtype
    return bool(dtype.is_floating or dtype.is_integer)


def all_reduce(operation: str, values: Data) -> Data:
    """Reduce all numbers of a structure over all replicas; other leaves stay as they are."""
    leaves: list[Data] = [leaf if leaf is None else tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(values)]
    numbers = [i for i, leaf in enumerate(leaves) if leaf is not None and has_number(leaf)]
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync if operation == "MEAN" else 1
    for i, total in zip(numbers, sums([leaves[i] for i in numbers])):
        leaves[i] = tf.cast(total / replicas, leaves[i].dtype)
    return tf.nest.pack_sequence_as(values, leaves)
