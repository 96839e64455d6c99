"""Tasks, the cluster spec and `TF_CONFIG`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.spec import TASK_TYPES, ClusterSpec, Task, chief_of, dialled_at, in_order, number_tasks, tf_config

COUNTS = st.dictionaries(st.sampled_from(TASK_TYPES), st.integers(0, 4))


def spec_of(*tasks: Task) -> ClusterSpec:
    return ClusterSpec({task: f"h:{2000 + i}" for i, task in enumerate(tasks)})


def test_tasks_are_listed_by_type_then_by_index() -> None:
    tasks = [Task("ps", 0), Task("worker", 10), Task("evaluator", 0), Task("worker", 2), Task("chief", 0)]

    assert [task.slug for task in in_order(tasks)] == ["chief-0", "worker-2", "worker-10", "ps-0", "evaluator-0"]


def test_the_chief_task_is_the_chief() -> None:
    assert chief_of([Task("worker", 0), Task("chief", 0)]) == Task("chief", 0)


def test_worker_0_is_the_chief_where_there_is_no_chief_task() -> None:
    assert chief_of([Task("ps", 0), Task("worker", 1), Task("worker", 0)]) == Task("worker", 0)


def test_a_cluster_without_tasks_has_no_chief() -> None:
    with pytest.raises(ValueError, match="at least one task"):
        chief_of([])


def test_indices_count_on_from_host_to_host() -> None:
    first, second = number_tasks([{"worker": 2, "chief": 1}, {"worker": 1, "ps": 1}])

    assert first == (Task("chief", 0), Task("worker", 0), Task("worker", 1))
    assert second == (Task("worker", 2), Task("ps", 0))


@given(st.lists(COUNTS, max_size=5))
def test_every_type_is_numbered_from_0_without_gaps(hosts: list[dict[str, int]]) -> None:
    tasks = [task for host in number_tasks(hosts) for task in host]

    for kind in TASK_TYPES:
        expected = list(range(sum(counts.get(kind, 0) for counts in hosts)))
        assert [task.index for task in tasks if task.type == kind] == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [("10.0.0.1", "10.0.0.1:22"), ("gpu-a", "gpu-a:22"), ("fe80::1", "[fe80::1]:22"), ("[::1]", "[::1]:22")],
)
def test_an_ipv6_address_is_dialled_in_brackets(address: str, expected: str) -> None:
    assert dialled_at(address, 22) == expected


def test_tf_config_names_every_address_and_the_task_itself() -> None:
    spec = spec_of(Task("worker", 0), Task("worker", 1), Task("ps", 0))

    assert json.loads(tf_config(spec, Task("worker", 1))) == {
        "cluster": {"worker": ["h:2000", "h:2001"], "ps": ["h:2002"]},
        "task": {"type": "worker", "index": 1},
    }


def test_an_address_stands_at_its_tasks_index() -> None:
    spec = ClusterSpec({Task("worker", i): f"h:{i}" for i in reversed(range(12))})

    assert json.loads(tf_config(spec, Task("worker", 0)))["cluster"]["worker"] == [f"h:{i}" for i in range(12)]


def test_an_evaluator_sees_itself_alone() -> None:
    spec = spec_of(Task("chief", 0), Task("worker", 0), Task("evaluator", 0))

    assert json.loads(tf_config(spec, Task("evaluator", 0)))["cluster"] == {"evaluator": ["h:2002"]}


def test_nobody_else_sees_an_evaluator() -> None:
    spec = spec_of(Task("chief", 0), Task("worker", 0), Task("evaluator", 0))

    assert json.loads(tf_config(spec, Task("worker", 0)))["cluster"] == {"chief": ["h:2000"], "worker": ["h:2001"]}


def test_a_task_outside_the_cluster_has_no_tf_config() -> None:
    with pytest.raises(ValueError, match="worker 7 is not in the cluster: worker 0"):
        tf_config(spec_of(Task("worker", 0)), Task("worker", 7))


def test_a_gap_in_the_indices_is_refused() -> None:
    with pytest.raises(ValueError, match="worker 1 is missing"):
        tf_config(spec_of(Task("worker", 0), Task("worker", 2)), Task("worker", 0))
