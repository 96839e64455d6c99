"""Enables the Keras fix and what belongs to it as soon as Keras is wholly imported.

Read by `sitecustomize.py` when Keras is wanted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

GANG = ("chief", "worker")
PROGRESS, STALL = "keras_progress.py", "keras_stall.py"
"""Files beside the fix: one reports the progress of `fit`, the other takes a wait from the end of each epoch."""


def spec_of_keras(watch: Any, path: Any, target: Any) -> ModuleSpec | None:
    """What the finders besides `watch` find, with a loader that enables the fix when Keras has been loaded.

    `watch` stays among the finders until then: a spec may be asked for without anything being loaded.
    """
    others = [finder for finder in sys.meta_path if finder is not watch and hasattr(finder, "find_spec")]
    specs = (finder.find_spec("keras", path, target) for finder in others)
    spec = next((spec for spec in specs if spec is not None), None)
    if spec is not None and spec.loader is not None:
        enable_after(spec.loader, watch)
    return spec


def enable_after(loader: Loader, watch: Any) -> None:
    """Shadow the loader's `exec_module` for one call: nothing of the loader differs once Keras is there."""
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        load(module)
        if watch in sys.meta_path:
            sys.meta_path.remove(watch)
        fix = os.environ.get("LAUNCH_KERAS_FIX", "")
        if has_gang(os.environ.get("TF_CONFIG")):
            try_to_enable(fix, watch.say)
        beside = os.path.dirname(fix)  # noqa: PTH120 - no path is imported here
        stall = os.path.join(beside, STALL)  # noqa: PTH118
        if os.path.isfile(stall):  # noqa: PTH113 - a copy of the fix alone is enough
            try_to_enable(stall, watch.say, "an epoch may wait for tf.data at its end")
        if os.environ.get("LAUNCH_PROGRESS"):
            try_to_enable(os.path.join(beside, PROGRESS), watch.say, "no reports of progress")  # noqa: PTH118

    loader.exec_module = exec_module  # type: ignore[method-assign]


def try_to_enable(path: str, say: Callable[..., None], *missing: str) -> None:
    """Say it where it fails, whatever is wrong with the file: the program may not need it."""
    try:
        enable(path)
    except Exception as error:
        say(error, *missing)


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
