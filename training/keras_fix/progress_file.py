"""The file of the progress, one JSON object a line."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .log import say

SECONDS_BETWEEN_LINES = 0.5
Logs = Any


class ProgressFile:
    """A line is due every half second, and a thread writes it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._next = self._next_last = 0.0
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[None] | None = None
        self._broken = False

    def due(self) -> bool:
        """Whether it is time for a line, and the one before has been written."""
        return not self._broken and time.monotonic() >= self._next and (self._writing is None or self._writing.done())

    def last_one_due(self) -> bool:
        """A `fit` has a last line, whenever it ends; but not each of hundreds that end within a second."""
        return not self._broken and time.monotonic() >= self._next_last

    def append(self, record: Mapping[str, Any], logs: Logs) -> None:
        """Write a line soon, with what is a plain number in `logs`."""
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES
        self._thread = self._thread or ThreadPoolExecutor(1, "tf-launch-progress")
        self._writing = self._thread.submit(self._write, record, plain_numbers(logs))

    def finish(self, record: Mapping[str, Any], logs: Logs) -> None:
        """Write the last line of a `fit`, and return when it is written."""
        self.append(record, logs)
        self._next_last = self._next
        if self._writing is not None:
            self._writing.result()

    def _write(self, record: Mapping[str, Any], logs: Mapping[str, Any]) -> None:
        metrics = {name: finite(value) for name, value in logs.items()}
        loss = {"loss": metrics.pop("loss")} if "loss" in metrics else {}
        line = json.dumps({**record, **loss, **({"metrics": metrics} if metrics else {})}) + "\n"
        try:
            with open(self._path, "a", encoding="utf-8") as file:  # noqa: PTH123 - a name as it is given
                file.write(line)
        except OSError as error:
            self._broken = True
            say(f"no reports of progress, training goes on: {self._path}: {error.strerror}")


def plain_numbers(logs: Logs) -> dict[str, Any]:
    """Scalars that this process has: reading anything else might need the other workers."""
    if not isinstance(logs, dict):
        return {}
    return {name: value for name, value in logs.items() if is_plain(value)}


def is_plain(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return True
    tf, numpy = sys.modules["tensorflow"], sys.modules["numpy"]
    return isinstance(value, (tf.Tensor, numpy.ndarray, numpy.generic)) and value.shape == ()


def finite(value: Any) -> float | None:
    """The number, on a device or not; None: infinite or none. A step that failed has no number, and says so itself."""
    try:
        number = float(value)
    except sys.modules["tensorflow"].errors.OpError:
        return None
    return number if math.isfinite(number) else None
