"""Which Keras can be served, and by which signs a faulty function is recognised."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from .untyped import Function

TRAINER = "keras.src.backend.tensorflow.trainer"
Minor = tuple[int, int]
"""Major and minor number of a version."""
KERAS_SERVED: tuple[Minor, Minor] = (3, 3), (3, 15)
TENSORFLOW_SERVED: tuple[Minor, Minor] = (2, 16), (2, 21)
"""The oldest and the newest version that was run. A newer Keras is served where its functions are the known ones."""


class Part(NamedTuple):
    """A function of Keras that may have a fault."""

    area: str
    owner: Any
    name: str
    replacement: Callable[[Function], Function]
    """Given Keras's function, the one that takes its place."""
    called_with: str
    """Its first parameters in the versions that are known."""
    signs: str
    """Pieces of source text (without its blanks) that show the fault."""
    since: Minor = KERAS_SERVED[0]
    until: Minor | None = None
    """The first and the last version of Keras that has the fault in this function."""
    stands_alone: bool = False
    """Whether it may be replaced without the others. Those that do not stand alone count on each other."""

    @property
    def title(self) -> str:
        """As in Keras's source."""
        return f"{self.owner.__name__.rpartition('.')[2]}.{self.name}"

    @property
    def is_faulty(self) -> bool:
        """Whether the fault is there.

        Raises:
            TypeError: the function is not called as it was in the versions that are known.
        """
        function = getattr(self.owner, self.name)
        expected, found = self.called_with.split(), list(inspect.signature(function).parameters)
        if found[: len(expected)] != expected:
            raise TypeError(f"{self.title}({', '.join(found)}) where ({', '.join(expected)}) was expected")
        source = "".join(inspect.getsource(function).split())
        return all(sign in source for sign in self.signs.split())


def keras_on_tensorflow() -> ModuleType | None:
    """The imported Keras; None: it is Keras 2, or computes with another backend."""
    keras = importlib.import_module("keras")
    is_known = minor_of(keras.__version__) >= (3, 0) and keras.config.backend() == "tensorflow"
    return keras if is_known else None


def minor_of(version: str) -> Minor:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def check_versions(keras: Minor) -> None:
    """Raise ImportError for versions that are known not to be served."""
    tensorflow = getattr(sys.modules.get("tensorflow"), "__version__", None)
    if tensorflow is not None and minor_of(tensorflow) < TENSORFLOW_SERVED[0]:
        raise ImportError(f"TensorFlow {tensorflow} is too old")
    if keras < KERAS_SERVED[0]:
        raise ImportError("too old: its optimizers do not add up the workers' gradients")
    if keras[0] > KERAS_SERVED[1][0]:
        raise ImportError("too new")


def refusal(version: str, reason: str) -> str:
    """The line that says that nothing is replaced, and which versions can be served."""
    (first, last), (tf_first, tf_last) = KERAS_SERVED, TENSORFLOW_SERVED
    served = f"Keras {dotted(first)} to {dotted(last)} on TensorFlow {dotted(tf_first)} to {dotted(tf_last)}"
    command = f"pip install 'keras>={dotted(first)},<{dotted((last[0], last[1] + 1))}'"
    return f"Keras {version} cannot be mended for MultiWorkerMirroredStrategy ({reason}): use {served}: {command}"


def dotted(version: Minor) -> str:
    return f"{version[0]}.{version[1]}"


def check_whole(parts: list[Part], found: list[Part]) -> None:
    """Raise TypeError where only some of these are as they were in the versions that are known."""
    changed = [part for part in parts if part not in found]
    if 0 < len(changed) < len(parts):
        names = ", ".join(part.title for part in changed)
        raise TypeError(f"{names} changed, of {len(parts)} functions that are only replaced together")
