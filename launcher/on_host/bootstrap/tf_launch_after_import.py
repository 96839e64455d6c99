"""Has a hook of ours run as soon as a module is wholly imported.

Read by `sitecustomize.py` when a module that a hook waits for is wanted.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def watched_spec(watch: Any, name: str, path: Any, target: Any) -> ModuleSpec | None:
    """What the finders besides `watch` find, with a loader that runs the hook when the module has been loaded.

    `watch` stays among the finders until then: a spec may be asked for without anything being loaded.
    """
    others = [finder for finder in sys.meta_path if finder is not watch and hasattr(finder, "find_spec")]
    specs = (finder.find_spec(name, path, target) for finder in others)
    spec = next((spec for spec in specs if spec is not None), None)
    if spec is not None and spec.loader is not None:
        run_after(spec.loader, watch, name)
    return spec


def run_after(loader: Loader, watch: Any, name: str) -> None:
    """Shadow the loader's `exec_module` for one call: nothing of the loader differs once the module is there."""
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        load(module)
        try:
            hook = watch.imported(name)
            if hook is not None:
                hook.after_import(module, watch)
        except Exception as error:
            watch.say(error, f"what launch adds to {name} is missing")

    loader.exec_module = exec_module  # type: ignore[method-assign]
