"""Runs at the start of every Python process of a worker: watches for Keras, which needs a fix with several workers.

The launcher puts this directory first on `PYTHONPATH` and the path of the fix into `LAUNCH_KERAS_FIX`. What reports the
progress of `fit` in the file that `LAUNCH_PROGRESS` names lies beside the fix.
A program without Keras must not notice, so this file is short and imports nothing; `tf_launch_keras_hook.py` is read
once Keras is wanted.
A `sitecustomize` that was on the path before runs as if this one were not there.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes longer than all of this file
OFF = ("0", "off", "no", "false")  # what a user sets instead of a path


class KerasWatch:
    """A finder that finds Keras as the finders after it do, and has it fixed when it is loaded."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """None for all modules but Keras."""
        if name != "keras":
            return None
        try:
            spec: ModuleSpec | None = hook().spec_of_keras(cls, path, target)
        except Exception as error:
            cls.say(error)
            return None
        return spec

    @staticmethod
    def say(reason: object, missing: str = "no Keras fix, `Model.fit` may fail") -> None:
        """One line on stderr, where there is one."""
        text = f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)
        if sys.stderr is not None:
            print(f"tf-launch: {missing}:", *text.split(), file=sys.stderr, flush=True)


def hook() -> "Any":
    """The module that knows what to do once Keras is wanted."""
    sys.path.insert(0, HERE)
    try:
        import tf_launch_keras_hook  # type: ignore[import-not-found]
    finally:
        sys.path.remove(HERE)
    return tf_launch_keras_hook


def watch_for_keras() -> None:
    """Look out for Keras if it may need the fix or has progress to report, and if the fix is there."""
    fix = os.environ.get("LAUNCH_KERAS_FIX")
    legacy = os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True")  # as TensorFlow reads it
    if not fix or fix.lower() in OFF or legacy or not ("TF_CONFIG" in os.environ or os.environ.get("LAUNCH_PROGRESS")):
        return
    if os.path.isfile(fix):  # noqa: PTH113
        sys.meta_path.insert(0, KerasWatch)
    else:
        KerasWatch.say(f"LAUNCH_KERAS_FIX names {fix}, which is not a file")


def run_next_sitecustomize() -> None:
    """Step aside: out of `sys.path`, and out of the way of the `sitecustomize` that comes after this one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != HERE]  # noqa: PTH100
    ours = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules[__name__] = ours


watch_for_keras()
run_next_sitecustomize()
