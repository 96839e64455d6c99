"""TensorFlow itself, for those who want to know: seconds, and the only place where anything of `launcher` imports it.

This runs in the workers' Python alone.
"""

from __future__ import annotations

from typing import Any


def tensorflow() -> dict[str, Any]:
    """What TensorFlow says when it is really imported, and which GPUs it can use."""
    try:
        import tensorflow as tf

        devices = tf.config.list_physical_devices("GPU")
        build = tf.sysconfig.get_build_info()
    except Exception as error:
        return {"version": "", "gpus": 0, "cuda": "", "reason": f"{type(error).__name__}: {error}"}
    return {"version": tf.__version__, "gpus": len(devices), "cuda": build.get("cuda_version", ""), "reason": ""}
