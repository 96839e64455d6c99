"""`TF_CONFIG` as the training program reads it."""

from __future__ import annotations

import json

import pytest

from training.errors import UsageError
from training.tf_config import Place, read_place


def tf_config(cluster: dict[str, int], task_type: str, index: int) -> dict[str, str]:
    addresses = {name: [f"host-{i}:1" for i in range(count)] for name, count in cluster.items()}
    return {"TF_CONFIG": json.dumps({"cluster": addresses, "task": {"type": task_type, "index": index}})}


@pytest.mark.parametrize("environ", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": " \n"}])
def test_without_tf_config_a_process_is_alone(environ: dict[str, str]) -> None:
    assert read_place(environ) == Place("worker", 0, 1, True)


@pytest.mark.parametrize(
    ("cluster", "task_type", "index", "expected"),
    [
        ({"worker": 2}, "worker", 0, Place("worker", 0, 2, True)),
        ({"worker": 2}, "worker", 1, Place("worker", 1, 2, False)),
        ({"chief": 1, "worker": 2}, "chief", 0, Place("chief", 0, 3, True)),
        ({"chief": 1, "worker": 2}, "worker", 0, Place("worker", 0, 3, False)),
        ({"worker": 2, "evaluator": 1}, "worker", 1, Place("worker", 1, 2, False)),
    ],
)
def test_chiefs_and_workers_train_together(
    cluster: dict[str, int], task_type: str, index: int, expected: Place
) -> None:
    assert read_place(tf_config(cluster, task_type, index)) == expected


@pytest.mark.parametrize("task_type", ["ps", "evaluator"])
def test_a_task_without_work_here_is_told_so(task_type: str) -> None:
    with pytest.raises(UsageError, match=f"{task_type} 0.*only chief and worker.*remove the {task_type} tasks"):
        read_place(tf_config({"worker": 2, task_type: 1}, task_type, 0))


@pytest.mark.parametrize(
    "text", ["{", "[]", "7", '{"cluster": {}}', '{"cluster": [], "task": {"type": "worker", "index": 0}}']
)
def test_a_malformed_tf_config_is_shown_with_what_it_should_look_like(text: str) -> None:
    with pytest.raises(UsageError, match="should look like"):
        read_place({"TF_CONFIG": text})


def test_a_task_that_the_cluster_does_not_have_is_an_error() -> None:
    with pytest.raises(UsageError, match="worker 2, which its cluster does not have"):
        read_place(tf_config({"worker": 2}, "worker", 2))
