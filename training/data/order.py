"""Which examples make up which step, and which of them each replica takes. Pure arithmetic on indices.

The examples of a step depend on seed, epoch and global batch size alone, so a run sees the same steps with any
number of workers, and a resumed run sees the steps that the interrupted one would have seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from training.errors import UsageError

HELD_OUT = 0.2
"""Share of the examples that is never trained on."""
SPLIT_STREAM, EPOCH_STREAM = 0, 1

Indices = NDArray[np.int32]


class Split(NamedTuple):
    """Indices of the training examples and of the held-out ones; every example is in one of them."""

    training: Indices
    held_out: Indices


def split(examples: int, seed: int) -> Split:
    """Hold out a random fifth of `examples`."""
    order = np.random.default_rng([seed, SPLIT_STREAM]).permutation(examples).astype(np.int32)
    held_out = math.ceil(examples * HELD_OUT)
    return Split(training=order[held_out:], held_out=order[:held_out])


def steps_per_epoch(examples: int, global_batch: int) -> int:
    """Whole global batches in an epoch; what is left over is another random few examples every epoch.

    Raises:
        UsageError: there are fewer examples than one global batch.
    """
    if global_batch > examples:
        raise UsageError(f"the global batch of {global_batch} is larger than the {examples} training examples")
    return examples // global_batch


def epoch_steps(examples: int, seed: int, epoch: int, global_batch: int) -> Indices:
    """The examples of every step of an epoch: [steps, global_batch]."""
    steps = steps_per_epoch(examples, global_batch)
    order = np.random.default_rng([seed, EPOCH_STREAM, epoch]).permutation(examples).astype(np.int32)
    return order[: steps * global_batch].reshape(steps, global_batch)


def run_steps(examples: int, seed: int, epochs: range, global_batch: int) -> Indices:
    """The examples of every step of several epochs: [steps, global_batch]."""
    none = np.empty((0, global_batch), np.int32)
    return np.concatenate([none, *(epoch_steps(examples, seed, epoch, global_batch) for epoch in epochs)])


def local_batches(steps: Indices, replicas: int, local: range) -> Indices:
    """What the replicas `local` of one worker take of each step, in the order in which `tf.distribute` deals it out.

    [steps, global_batch] -> [steps * len(local), global_batch / replicas]
    """
    each = steps.shape[1] // replicas
    return steps.reshape(-1, replicas, each)[:, local.start : local.stop].reshape(-1, each)


def validation_bounds(examples: int, replicas: int, global_batch: int) -> Indices:
    """Where the held-out examples are cut, for every step and replica in turn: [steps * replicas + 1].

    The pieces cover every example once, whatever the number of replicas, and none is empty. They are of one size in
    every step but the last (Keras averages the first batch over the replicas to learn its shape); there the
    sizes differ by one at most.

    Raises:
        UsageError: there are too many replicas for the held-out examples.
    """
    if examples % replicas and 2 * replicas > examples:
        raise UsageError(f"{replicas} replicas cannot share {examples} held-out examples; use fewer workers")
    divides = examples % replicas == 0
    each = min(global_batch // replicas, examples // replicas if divides else examples // replicas - 1)
    left = examples % (each * replicas)
    full = examples // (each * replicas) if left == 0 else (examples - replicas) // (each * replicas)
    last = np.linspace(full * each * replicas, examples, replicas + 1) if left else np.array([examples])
    return np.concatenate([np.arange(full * replicas) * each, last]).astype(np.int32)


def validation_pieces(bounds: Indices, replicas: int, local: range) -> Indices:
    """Start and stop of the held-out examples for each step and local replica: [steps * len(local), 2]."""
    pieces = np.stack([bounds[:-1], bounds[1:]], axis=1).reshape(-1, replicas, 2)
    return pieces[:, local.start : local.stop].reshape(-1, 2)
