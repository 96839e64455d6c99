"""Enables the Keras fix and what belongs to it as soon as Keras is wholly imported.

Read by `sitecustomize.py` when Keras is wanted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

GANG = ("chief", "worker")
FIX = "tf_launch_keras_fix"
"""What the package is called here, wherever it lies: no module of a program has this name."""
NO_FIX = "no Keras fix, `Model.fit` may fail"


def after_import(_keras: ModuleType, watch: Any) -> None:
    """Keras has just been imported: enable the fix where workers train together, and two chapters of it everywhere."""
    wanted = {"stall": "an epoch may wait for tf.data at its end"}
    if any(map(has_gang, clusters(watch.given))):
        wanted = {"enabling": NO_FIX, **wanted}
    if os.environ.get("LAUNCH_PROGRESS"):
        wanted["progress"] = "no reports of progress"
    try:
        load_package(os.environ.get("LAUNCH_KERAS_FIX", ""))
    except Exception as error:
        watch.say(error, NO_FIX)
        return
    for chapter, missing in wanted.items():
        try_to_enable(chapter, watch.say, missing)


def clusters(given: Mapping[str, str]) -> list[str | None]:
    """Values of `TF_CONFIG` that this process may train by: many a program sets its own after it has imported Keras."""
    return [os.environ.get("TF_CONFIG"), given.get("TF_CONFIG"), given.get("LAUNCH_TF_CONFIG")]


def try_to_enable(chapter: str, say: Callable[[object, str], None], missing: str) -> None:
    """Say it where it fails, whatever is wrong with the chapter: the program may not need it."""
    try:
        import_module(f"{FIX}.{chapter}").enable()
    except Exception as error:
        say(error, missing)


def load_package(directory: str) -> None:
    """Import the package of the fix from its directory, which is on nobody's path."""
    path = os.path.join(directory, "__init__.py")  # noqa: PTH118 - no path is imported here
    spec = spec_from_file_location(FIX, path, submodule_search_locations=[directory])
    if spec is None or spec.loader is None:
        raise ImportError(f"{directory}, which LAUNCH_KERAS_FIX names, is no Python package")
    sys.modules[FIX] = package = module_from_spec(spec)
    try:
        spec.loader.exec_module(package)
    except BaseException:
        del sys.modules[FIX]
        raise


def has_gang(tf_config: str | None) -> bool:
    """Whether there are chiefs or workers that train together; not where `TF_CONFIG` is bad (TensorFlow says why)."""
    try:
        cluster = json.loads(tf_config or "{}").get("cluster", {})
        return any(len(cluster.get(kind, ())) for kind in GANG)
    except (ValueError, TypeError, AttributeError):
        return False
