"""The options of a training run, checked before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from training.config import TrainingConfig
from training.errors import UsageError
from training.output import default_output_dir

OUT = Path("out")


def config(**options: Any) -> TrainingConfig:
    return TrainingConfig(output_dir=OUT, **options)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"epochs": 0}, "--epochs"),
        ({"epochs": 10_001}, "--epochs"),
        ({"batch_size": 0}, "--batch-size"),
        ({"global_batch_size": -1}, "--global-batch-size"),
        ({"seed": -1}, "--seed"),
        ({"checkpoint_every": 0}, "--checkpoint-every"),
        ({"keep_checkpoints": 0}, "--keep-checkpoints"),
        ({"learning_rate": 0.0}, "--learning-rate"),
        ({"learning_rate": float("nan")}, "--learning-rate"),
    ],
)
def test_a_value_out_of_range_is_an_error_that_names_its_option(options: dict[str, Any], option: str) -> None:
    with pytest.raises(UsageError, match=option):
        config(**options)


def test_batch_size_and_global_batch_size_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="not both"):
        config(batch_size=8, global_batch_size=16)


def test_the_batch_size_is_per_replica() -> None:
    assert config(batch_size=8).replica_batch_size(3) == 8


def test_the_global_batch_size_is_shared_out() -> None:
    assert config(global_batch_size=48).replica_batch_size(3) == 16


@pytest.mark.parametrize(("size", "replicas", "near"), [(64, 3, "63 or 66"), (2, 3, "; 3 can")])
def test_a_global_batch_size_that_does_not_divide_names_sizes_that_do(size: int, replicas: int, near: str) -> None:
    with pytest.raises(UsageError, match=near):
        config(global_batch_size=size).replica_batch_size(replicas)


def test_equal_global_batches_have_the_same_trajectory() -> None:
    assert config(batch_size=24).trajectory(2) == config(global_batch_size=48).trajectory(3)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({"LAUNCH_OUTPUT_DIR": "/runs/1/chief"}, "/runs/1/chief"), ({"LAUNCH_OUTPUT_DIR": ""}, "output"), ({}, "output")],
)
def test_the_launcher_decides_the_default_output_directory(environ: dict[str, str], expected: str) -> None:
    assert default_output_dir(environ) == Path(expected)
