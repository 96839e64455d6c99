"""tf.data pipelines: whether one calls Python, and how to see its iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .untyped import Dataset


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


def calls_python(dataset: Dataset) -> bool:
    """Whether any part of a pipeline runs Python code while it is iterated (a generator, `tf.py_function`)."""
    graphs = (function.function.graph.as_graph_def() for function in dataset._functions())
    own = any("PyFunc" in operation for graph in graphs for operation in operations_of(graph))
    return own or any(map(calls_python, dataset._inputs()))


def operations_of(graph: Any) -> set[str]:
    """The kinds of operations in a graph and in the functions that it calls."""
    nodes = {node.op for node in graph.node}
    return nodes.union(node.op for function in graph.library.function for node in function.node_def)
