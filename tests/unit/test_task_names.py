"""Several tasks in a few words."""

from __future__ import annotations

import pytest

from launcher.cluster.spec import Task
from launcher.cluster.task_names import counted, named


def tasks(*slugs: str) -> list[Task]:
    return [Task.of_slug(slug) for slug in slugs]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (["worker-0"], "worker 0"),
        (["chief-0"], "chief 0"),
        (["worker-1", "worker-0"], "workers 0-1"),
        (["worker-0", "worker-2", "worker-3"], "workers 0, 2-3"),
        (["worker-0", "worker-2", "worker-4"], "workers 0, 2, 4"),
        (["chief-0", "worker-0"], "chief, worker 0"),
        (["ps-0", "chief-0", "worker-0", "worker-1", "ps-1", "evaluator-0"], "chief, workers 0-1, ps 0-1, evaluator"),
    ],
)
def test_tasks_are_named_by_type_and_range(given: list[str], name: str) -> None:
    assert named(tasks(*given)) == name


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (["worker-0"], "1 worker"),
        (["worker-0", "worker-1"], "2 workers"),
        (["ps-0", "ps-1"], "2 ps"),
        (["chief-0", "worker-0", "worker-1", "ps-0"], "4 tasks (1 chief, 2 workers, 1 ps)"),
        (["worker-0", "ps-0", "ps-1", "evaluator-0"], "4 tasks (1 worker, 2 ps, 1 evaluator)"),
    ],
)
def test_tasks_are_counted_by_type(given: list[str], count: str) -> None:
    assert counted(tasks(*given)) == count
