"""Which examples make up a step, and which of them each replica takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.digits import load_digits
from training.data.order import (
    local_batches,
    run_steps,
    split,
    steps_per_epoch,
    validation_bounds,
    validation_pieces,
)
from training.errors import UsageError


def test_the_file_holds_the_digits_of_uci() -> None:
    digits = load_digits()
    assert digits.images.shape == (1797, 8, 8, 1)
    assert (digits.images.min(), digits.images.max()) == (0.0, 1.0)
    assert float(digits.images.sum()) * 16 == 561718
    assert np.bincount(digits.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_every_example_is_either_trained_on_or_held_out() -> None:
    training, held_out = split(1797, seed=3)
    assert (len(training), len(held_out)) == (1437, 360)
    assert sorted([*training, *held_out]) == list(range(1797))


def test_the_seed_decides_the_split() -> None:
    assert np.array_equal(split(100, seed=1).held_out, split(100, seed=1).held_out)
    assert not np.array_equal(split(100, seed=1).held_out, split(100, seed=2).held_out)


def test_no_example_comes_twice_in_an_epoch() -> None:
    steps = run_steps(100, seed=0, epochs=range(1), global_batch=12)
    assert steps.shape == (8, 12)
    assert len(np.unique(steps)) == 96


def test_epochs_differ_in_their_order() -> None:
    first, second = np.split(run_steps(96, seed=0, epochs=range(2), global_batch=12), 2)
    assert not np.array_equal(first, second)


def test_a_resumed_run_sees_the_steps_that_were_left() -> None:
    whole = run_steps(100, seed=5, epochs=range(6), global_batch=10)
    assert np.array_equal(run_steps(100, seed=5, epochs=range(4, 6), global_batch=10), whole[40:])


def test_a_run_without_epochs_left_has_no_steps() -> None:
    assert run_steps(100, seed=5, epochs=range(6, 6), global_batch=10).shape == (0, 10)


@given(
    each=st.integers(1, 8),
    replicas_a_worker=st.integers(1, 3),
    workers=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_workers_share_every_step_out_without_loss(
    each: int, replicas_a_worker: int, workers: int, seed: int
) -> None:
    replicas = replicas_a_worker * workers
    steps = run_steps(200, seed, range(2), each * replicas)
    shares = [
        local_batches(steps, replicas, range(w * replicas_a_worker, (w + 1) * replicas_a_worker)).reshape(
            len(steps), -1
        )
        for w in range(workers)
    ]
    assert np.array_equal(np.concatenate(shares, axis=1), steps)


@given(examples=st.integers(24, 400), local=st.integers(1, 3), workers=st.integers(1, 4), each=st.integers(1, 64))
def test_the_replicas_validate_every_example_once_and_none_runs_empty(
    examples: int, local: int, workers: int, each: int
) -> None:
    replicas = local * workers
    bounds = validation_bounds(examples, replicas, each * replicas)
    pieces = [
        tuple(piece)
        for start in range(0, replicas, local)
        for piece in validation_pieces(bounds, replicas, range(start, start + local))
    ]
    assert all(start < stop for start, stop in pieces)
    assert sorted(i for start, stop in pieces for i in range(start, stop)) == list(range(examples))


@given(examples=st.integers(24, 400), replicas=st.integers(1, 12), each=st.integers(1, 64))
def test_the_replicas_have_equal_batches_in_the_first_validation_step(examples: int, replicas: int, each: int) -> None:
    sizes = np.diff(validation_bounds(examples, replicas, each * replicas)).reshape(-1, replicas)
    assert len(set(sizes[0])) == 1
    assert sizes.max() <= each + 1


def test_a_global_batch_larger_than_the_data_is_an_error() -> None:
    with pytest.raises(UsageError, match="101 is larger than the 100 training examples"):
        steps_per_epoch(100, 101)


def test_more_replicas_than_held_out_examples_are_an_error() -> None:
    with pytest.raises(UsageError, match="use fewer workers"):
        validation_bounds(3, 4, 8)
