"""Several tasks in a few words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from launcher.cluster.spec import Task, in_order


def named(tasks: Iterable[Task]) -> str:
    """`worker 0`, `workers 0-1`, `chief, workers 0, 2-3, ps 0-1`. A single task is named as everywhere."""
    ordered = in_order(tasks)
    if len(ordered) == 1:
        return str(ordered[0])
    types = dict.fromkeys(task.type for task in ordered)
    return ", ".join(_named_alike(kind, [task.index for task in ordered if task.type == kind]) for kind in types)


def counted(tasks: Iterable[Task]) -> str:
    """`2 workers`; where they are of several types, `4 tasks (1 chief, 2 workers, 1 ps)`."""
    counts = Counter(task.type for task in in_order(tasks))
    told = [f"{count} {_plural(kind) if count != 1 else kind}" for kind, count in counts.items()]
    return told[0] if len(told) == 1 else f"{counts.total()} tasks ({', '.join(told)})"


def _named_alike(kind: str, indices: list[int]) -> str:
    if kind in ("chief", "evaluator") and indices == [0]:
        return kind
    return f"{kind if len(indices) == 1 else _plural(kind)} {', '.join(_ranges(indices))}"


def _plural(kind: str) -> str:
    return kind if kind == "ps" else f"{kind}s"


def _ranges(indices: list[int]) -> Iterator[str]:
    first = last = indices[0]
    for index in [*indices[1:], -1]:
        if index == last + 1:
            last = index
            continue
        yield str(first) if first == last else f"{first}-{last}"
        first = last = index
