"""`TF_CONFIG`: which task of which cluster this process is. Pure; TensorFlow is not needed to read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training.errors import UsageError

TRAINING_TYPES = ("chief", "worker")


@dataclass(frozen=True, slots=True)
class Place:
    """This process among the workers that train together."""

    type: str = "worker"
    index: int = 0
    workers: int = 1
    """Chiefs and workers of the cluster."""
    is_chief: bool = True

    def __str__(self) -> str:
        return f"{self.type} {self.index}"


def read_place(environ: Mapping[str, str]) -> Place:
    """Read this process's place from `TF_CONFIG`; without it the process is alone.

    Raises:
        UsageError: `TF_CONFIG` is malformed, or the task is one that this program has no work for.
    """
    text = environ.get("TF_CONFIG", "").strip()
    if not text:
        return Place()
    cluster, task_type, index = parts(text)
    check_task(cluster, task_type, index)
    workers = sum(len(cluster.get(each, ())) for each in TRAINING_TYPES)
    is_chief = task_type == "chief" or ("chief" not in cluster and index == 0)
    return Place(task_type, index, workers, is_chief)


def parts(text: str) -> tuple[dict[str, list[Any]], str, int]:
    """Cluster, task type and task index of a `TF_CONFIG`."""
    try:
        value = json.loads(text)
        cluster = {str(name): list(addresses) for name, addresses in value["cluster"].items()}
        return cluster, str(value["task"]["type"]), int(value["task"]["index"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"TF_CONFIG cannot be read ({type(error).__name__}: {error}). It is {text[:200]!r} and should look like "
            '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
        ) from error


def check_task(cluster: Mapping[str, list[Any]], task_type: str, index: int) -> None:
    """Check that the task exists and that this program has work for it."""
    if task_type not in cluster or not 0 <= index < len(cluster[task_type]):
        raise UsageError(f"TF_CONFIG says this is {task_type} {index}, which its cluster does not have: {cluster}")
    if task_type not in TRAINING_TYPES:
        raise UsageError(
            f"TF_CONFIG says this is {task_type} {index}. `python -m training` trains with "
            "MultiWorkerMirroredStrategy, which has only chief and worker tasks; "
            f"remove the {task_type} tasks from the cluster"
        )
