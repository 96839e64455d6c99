"""`launch --keras 2`: Keras 2 in a worker, whichever way the program imports it.

`TF_USE_LEGACY_KERAS` makes `tf.keras` Keras 2. An old program may also say `import keras`, which is Keras 3 nowadays;
here it gets the same Keras 2.
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
"""The exit code that the launcher never restarts after: another attempt would find the same packages."""


class KerasIsTfKeras:
    """A finder that finds `tf_keras` under the name `keras`, and likewise its submodules."""

    @classmethod
    def find_spec(cls, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """A spec for `keras` and its submodules; None for all others, and for modules that Keras 2 does not have.

        Raises:
            SystemExit: Keras 2 is not installed.
        """
        if name.partition(".")[0] != "keras" or (name != "keras" and "tf_keras" not in sys.modules):
            return None
        from importlib import import_module
        from importlib.machinery import ModuleSpec
        from importlib.util import find_spec

        found = find_spec(f"tf_{name}")
        if found is None:
            import_module("tensorflow")  # without tf_keras this ends the process, by `after_import`
            return None
        package = found.submodule_search_locations is not None
        return ModuleSpec(name, SameModule(), origin=found.origin, is_package=package)  # type: ignore[arg-type]


class SameModule:
    """A loader that gives a module of `tf_keras` a second name."""

    spec: ModuleSpec | None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of `tf_keras` itself. Python then replaces its `__spec__` by that of the second name."""
        from importlib import import_module

        module = import_module(f"tf_{spec.name}")
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module is loaded already: only restore its own spec."""
        module.__spec__ = self.spec


def install() -> None:
    """Make `import keras` import `tf_keras` from now on."""
    sys.meta_path.insert(0, KerasIsTfKeras)


def after_import(tensorflow: ModuleType, _watch: Any) -> None:
    """TensorFlow has just been imported: end the process if there is no Keras 2 of the same version.

    Raises:
        SystemExit: with `EXIT_USAGE`.
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
    """The version of the installed package, without importing it; `unknown` without metadata; None if it is missing."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        return version("tf_keras")
    except PackageNotFoundError:
        return "unknown" if find_spec("tf_keras") else None
