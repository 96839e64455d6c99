"""Runs at the start of every Python process of a worker, and installs hooks for modules that it may import.

The launcher puts this directory first on `PYTHONPATH`. `wanted_hooks` says which modules have hooks, and why. A program
that imports none of them must not notice anything, so this file is short and imports nothing; the files beside it are
read only when such a module is imported. A `sitecustomize` of the user's runs as if this one did not exist.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes longer than all of this file
OFF = ("0", "off", "no", "false")  # values of LAUNCH_KERAS_FIX and LAUNCH_TF_CONFIG that turn these off
RESOLVER = "tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver"


class ImportWatch:
    """A finder that finds modules as the other finders do, and runs our hook once a hooked module is loaded."""

    hooks: "dict[str, str]"
    """Module -> our module whose `after_import(module, watch)` is called, once."""
    given: "dict[str, str]"
    """The environment at the start of this process: a program may change its own."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """The spec of a module in `hooks`; None for all others, which the next finder then finds."""
        if name not in cls.hooks:
            return None
        try:
            spec: ModuleSpec | None = ours("tf_launch_after_import").watched_spec(cls, name, path, target)
        except Exception as error:
            cls.warn(error, f"what launch adds to {name} is missing")
            return None
        return spec

    @classmethod
    def imported(cls, name: str) -> "Any":
        """Forget a module that is loaded; return our module with the hook for it."""
        hook = cls.hooks.pop(name, None)
        if not cls.hooks and cls in sys.meta_path:
            sys.meta_path.remove(cls)
        return hook and ours(hook)

    @staticmethod
    def warn(reason: object, missing: str) -> None:
        """Print one line to stderr, if there is one."""
        text = f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)
        if sys.stderr is not None:
            print(f"tf-launch: {missing}:", *text.split(), file=sys.stderr, flush=True)


def ours(name: str) -> "Any":
    """Import a module from this directory."""
    sys.path.insert(0, HERE)
    try:
        return __import__(name)
    finally:
        sys.path.remove(HERE)


def wanted_hooks(env: "dict[str, str]") -> "dict[str, str]":
    """The modules that need a hook in this process, each with our module that has it."""
    wanted = {}
    if wants_keras_fix(env):
        wanted["keras"] = "tf_launch_keras_hook"
    if env.get("LAUNCH_PID") == str(os.getpid()) and env.get("LAUNCH_TF_CONFIG", "").lower() not in ("", *OFF):
        wanted[RESOLVER] = "tf_launch_tf_config_hook"
    if env.get("LAUNCH_KERAS") == "2":
        wanted["tensorflow"] = "tf_launch_keras2"
    return wanted


def wants_keras_fix(env: "dict[str, str]") -> bool:
    """Whether Keras 3 may need the fix or may report progress, and the fix is there."""
    fix = env.get("LAUNCH_KERAS_FIX")
    legacy = env.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True")  # as TensorFlow reads it
    if not fix or fix.lower() in OFF or legacy or not ("TF_CONFIG" in env or env.get("LAUNCH_PROGRESS")):
        return False
    if os.path.isfile(os.path.join(fix, "__init__.py")):  # noqa: PTH113, PTH118
        return True
    ImportWatch.warn(f"LAUNCH_KERAS_FIX names {fix}, which is no package", "no Keras fix, `Model.fit` may fail")
    return False


def watch_imports() -> None:
    """Install the hooks that this process needs."""
    ImportWatch.given = dict(os.environ)
    ImportWatch.hooks = wanted_hooks(ImportWatch.given)
    if ImportWatch.hooks:
        sys.meta_path.insert(0, ImportWatch)
    if "tensorflow" in ImportWatch.hooks:
        ours("tf_launch_keras2").install()


def run_next_sitecustomize() -> None:
    """Remove this directory from `sys.path`, and import the next `sitecustomize`, if there is one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != HERE]  # noqa: PTH100
    ours = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules[__name__] = ours


watch_imports()
run_next_sitecustomize()
