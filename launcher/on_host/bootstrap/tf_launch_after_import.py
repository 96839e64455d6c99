"""Runs a hook as soon as its module is completely imported.

`sitecustomize.py` imports this file when a module with a hook is imported.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def watched_spec(watch: Any, name: str, path: Any, target: Any) -> ModuleSpec | None:
    """The spec that the other finders find, with a loader that runs the hook once the module is loaded.

    `watch` stays among the finders until then: `importlib.util.find_spec` asks for a spec and loads nothing.
    """
    others = [finder for finder in sys.meta_path if finder is not watch and hasattr(finder, "find_spec")]
    specs = (finder.find_spec(name, path, target) for finder in others)
    spec = next((spec for spec in specs if spec is not None), None)
    if spec is not None and spec.loader is not None:
        run_after(spec.loader, watch, name)
    return spec


def run_after(loader: Loader, watch: Any, name: str) -> None:
    """Shadow the loader's `exec_module` for one call; after that the loader is as before."""
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        load(module)
        try:
            hook = watch.imported(name)
            if hook is not None:
                hook.after_import(module, watch)
        except Exception as error:
            watch.warn(error, f"what launch adds to {name} is missing")

    loader.exec_module = exec_module  # type: ignore[method-assign]
