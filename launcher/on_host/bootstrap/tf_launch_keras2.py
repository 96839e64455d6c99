"""`launch --keras 2`: Keras 2 in a worker, wherever the program takes it from.

`TF_USE_LEGACY_KERAS` makes `tf.keras` Keras 2. A program of that time may just as well say `import keras`, which is
Keras 3 nowadays: it gets the same Keras 2.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

EXIT_USAGE = 2
"""The launcher never tries again what ends so: a further attempt would find the same packages."""


class KerasIsTfKeras:
    """A finder that finds `tf_keras` by the name of `keras`, and what is in it alike."""

    @classmethod
    def find_spec(cls, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """None for all other modules, and for what Keras 2 has not.

        Raises:
            SystemExit: there is no Keras 2 at all.
        """
        if name.partition(".")[0] != "keras" or (name != "keras" and "tf_keras" not in sys.modules):
            return None
        from importlib import import_module
        from importlib.machinery import ModuleSpec
        from importlib.util import find_spec

        found = find_spec(f"tf_{name}")
        if found is None:
            import_module("tensorflow")  # ends the process, by `after_import`, where there is no tf_keras at all
            return None
        package = found.submodule_search_locations is not None
        return ModuleSpec(name, SameModule(), origin=found.origin, is_package=package)  # type: ignore[arg-type]


class SameModule:
    """A loader that gives a module of `tf_keras` a second name."""

    spec: ModuleSpec | None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself; Python then puts the spec of the second name into it."""
        from importlib import import_module

        module = import_module(f"tf_{spec.name}")
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has been loaded; its own spec is put back."""
        module.__spec__ = self.spec


def install() -> None:
    """From now on, `keras` is `tf_keras`."""
    sys.meta_path.insert(0, KerasIsTfKeras)


def after_import(tensorflow: ModuleType, _watch: Any) -> None:
    """TensorFlow has just been imported: end the process where there is no Keras 2 that belongs to it.

    Raises:
        SystemExit: with the code that is never tried again.
    """
    wanted = ".".join(tensorflow.__version__.split(".")[:2])
    found = tf_keras_version()
    if found == "unknown" or f"{found}.".startswith(f"{wanted}."):
        return
    have = f"tf_keras {found}" if found else "none"
    needs = f"--keras 2 needs tf_keras {wanted} for TensorFlow {tensorflow.__version__}"
    install_it = f"{sys.executable} -m pip install 'tf_keras=={wanted}.*'"
    if sys.stderr is not None:
        where = f"{sys.executable} on {os.uname().nodename}"
        print(f"tf-launch: {needs}, and {where} has {have}: {install_it}", file=sys.stderr, flush=True)
    raise SystemExit(EXIT_USAGE)


def tf_keras_version() -> str | None:
    """Of the installed package, which is not imported; `unknown` where it came in another way, None without it."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        return version("tf_keras")
    except PackageNotFoundError:
        return "unknown" if find_spec("tf_keras") else None
