"""Enables the Keras fix, and what belongs to it, as soon as Keras is completely imported.

`sitecustomize.py` imports this file when Keras is imported.
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
"""The package's name in this process, wherever it lies: no module of a program has it."""
NO_FIX = "no Keras fix, `Model.fit` may fail"


def after_import(_keras: ModuleType, watch: Any) -> None:
    """Keras has just been imported: enable the whole fix where workers train together, else only a part of it."""
    wanted = {"stall": "an epoch may wait for tf.data at its end"}
    if any(map(has_gang, clusters(watch.given))):
        wanted = {"enabling": NO_FIX, **wanted}
    if os.environ.get("LAUNCH_PROGRESS"):
        wanted["progress"] = "no reports of progress"
    try:
        load_package(os.environ.get("LAUNCH_KERAS_FIX", ""))
    except Exception as error:
        watch.warn(error, NO_FIX)
        return
    for chapter, missing in wanted.items():
        try_to_enable(chapter, watch.warn, missing)


def clusters(given: Mapping[str, str]) -> list[str | None]:
    """The `TF_CONFIG` values that may become this process's: a program may still set its own after importing Keras."""
    return [os.environ.get("TF_CONFIG"), given.get("TF_CONFIG"), given.get("LAUNCH_TF_CONFIG")]


def try_to_enable(chapter: str, warn: Callable[[object, str], None], missing: str) -> None:
    """Enable a chapter of the fix. If that fails for any reason, only warn: the program may not need it."""
    try:
        import_module(f"{FIX}.{chapter}").enable()
    except Exception as error:
        warn(error, missing)


def load_package(directory: str) -> None:
    """Import the package of the fix from its directory, which is not on `sys.path`."""
    path = os.path.join(directory, "__init__.py")  # noqa: PTH118 - pathlib is slow to import
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
    """Whether the cluster has a chief or workers, which train together. False for an invalid value."""
    try:
        cluster = json.loads(tf_config or "{}").get("cluster", {})
        return any(len(cluster.get(kind, ())) for kind in GANG)
    except (ValueError, TypeError, AttributeError):
        return False
