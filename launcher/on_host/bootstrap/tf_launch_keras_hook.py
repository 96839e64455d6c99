"""Enables the Keras fix and what belongs to it as soon as Keras is wholly imported.

Read by `sitecustomize.py` when Keras is wanted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

GANG = ("chief", "worker")
PROGRESS, STALL = "keras_progress.py", "keras_stall.py"
"""Files beside the fix: one reports the progress of `fit`, the other takes a wait from the end of each epoch."""


def after_import(_keras: ModuleType, watch: Any) -> None:
    """Keras has just been imported: enable the fix where workers train together, and what lies beside it."""
    fix = os.environ.get("LAUNCH_KERAS_FIX", "")
    if any(map(has_gang, clusters(watch.given))):
        try_to_enable(fix, watch.say, "no Keras fix, `Model.fit` may fail")
    beside = os.path.dirname(fix)  # noqa: PTH120 - no path is imported here
    stall = os.path.join(beside, STALL)  # noqa: PTH118
    if os.path.isfile(stall):  # noqa: PTH113 - a copy of the fix alone is enough
        try_to_enable(stall, watch.say, "an epoch may wait for tf.data at its end")
    if os.environ.get("LAUNCH_PROGRESS"):
        try_to_enable(os.path.join(beside, PROGRESS), watch.say, "no reports of progress")  # noqa: PTH118


def clusters(given: Mapping[str, str]) -> list[str | None]:
    """Values of `TF_CONFIG` that this process may train by: many a program sets its own after it has imported Keras."""
    return [os.environ.get("TF_CONFIG"), given.get("TF_CONFIG"), given.get("LAUNCH_TF_CONFIG")]


def try_to_enable(path: str, say: Callable[[object, str], None], missing: str) -> None:
    """Say it where it fails, whatever is wrong with the file: the program may not need it."""
    try:
        enable(path)
    except Exception as error:
        say(error, missing)


def enable(path: str) -> None:
    """Load a file by its path and call its `enable()`."""
    name = os.path.basename(path).partition(".")[0]  # noqa: PTH119
    spec = spec_from_file_location(f"tf_launch_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path}, which LAUNCH_KERAS_FIX leads to, is no Python file")
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    loaded.enable()


def has_gang(tf_config: str | None) -> bool:
    """Whether there are chiefs or workers that train together; not where `TF_CONFIG` is bad (TensorFlow says why)."""
    try:
        cluster = json.loads(tf_config or "{}").get("cluster", {})
        return any(len(cluster.get(kind, ())) for kind in GANG)
    except (ValueError, TypeError, AttributeError):
        return False
