"""tf.data pipelines: whether one calls Python, and how to see its iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .untyped import Dataset

_kept: list[Any] = []


class Observed:
    """A dataset each of whose iterators is shown to `observe` when it is made."""

    def __init__(self, dataset: Dataset, observe: Callable[[Any], None]) -> None:
        self._dataset = dataset
        self._observe = observe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def __iter__(self) -> Iterator[Any]:
        iterator: Iterator[Any] = iter(self._dataset)
        self._observe(iterator)
        return iterator


def keeping_iterators(dataset: Dataset) -> Dataset:
    """Keep every iterator of `dataset` until the process ends, which should be by `os._exit`.

    Dropping a distributed iterator waits for a thread of tf.data that no option turns off. It sleeps 10 ms, 20, 40 ...
    up to a minute: a run of 25 s was seen to take 23 s more to end. `stall` helps with Keras's own iterators only.
    """

    class Keeping(type(dataset)):  # type: ignore[misc]  # Keras has to know the dataset by its class
        def __iter__(self) -> Any:
            _kept.append(super().__iter__())
            return _kept[-1]

    dataset.__class__ = Keeping
    return dataset


def calls_python(dataset: Dataset) -> bool:
    """Whether any part of a pipeline runs Python code while it is iterated (a generator, `tf.py_function`)."""
    graphs = (function.function.graph.as_graph_def() for function in dataset._functions())
    own = any("PyFunc" in operation for graph in graphs for operation in operations_of(graph))
    return own or any(map(calls_python, dataset._inputs()))


def operations_of(graph: Any) -> set[str]:
    """The kinds of operations in a graph and in the functions that it calls."""
    nodes = {node.op for node in graph.node}
    return nodes.union(node.op for function in graph.library.function for node in function.node_def)
