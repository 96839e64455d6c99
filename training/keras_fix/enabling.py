"""Replaces what is faulty in the imported Keras, once a process."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from .log import say, saying_once
from .recognising import KERAS_SERVED, check_versions, check_whole, dotted, minor_of, refusal
from .stock import TRAINER

MARK = "_multiworker_fix"


def enable() -> str | None:
    """Replace what is broken in the imported Keras 3; calling it again changes nothing.

    One line on stderr names the Keras version and what was replaced as soon as a model is trained, evaluated or
    built under that strategy. A Keras 3 that cannot be served is left alone, and a line names the versions that can:
    a program that needs no `fit` under that strategy goes on.

    Returns:
        The names of the functions that are now replaced, with commas; None: Keras was left alone (it is Keras 2, it
        does not run on TensorFlow, it cannot be served, or it has none of the faults).
    """
    keras = importlib.import_module("keras")
    minor = minor_of(keras.__version__)
    if minor < (3, 0) or keras.config.backend() != "tensorflow":
        return None
    try:
        check_versions(minor)
        trainer = importlib.import_module(TRAINER)
        if not hasattr(trainer, MARK):
            setattr(trainer, MARK, replace_faulty(trainer, keras.__version__))
    except (ImportError, AttributeError, TypeError, OSError) as error:
        say(refusal(keras.__version__, str(error)))
        return None
    replaced: str | None = getattr(trainer, MARK)
    return replaced


def replace_faulty(trainer: ModuleType, version: str) -> str | None:
    from .parts import parts_of  # its chapters import TensorFlow, which a Keras on another backend does not need

    parts = parts_of(trainer, minor_of(version))
    found = [part for part in parts if part.is_faulty]
    check_whole([part for part in parts if not part.stands_alone], found)
    if not found:
        say(f"Keras {version} has none of the known faults under MultiWorkerMirroredStrategy: left alone")
        return None
    areas = ", ".join(dict.fromkeys(part.area for part in found))
    newer = f" (newer than {dotted(KERAS_SERVED[1])}, which is the newest that was tried)"
    where = f"Keras {version}{newer if minor_of(version) > KERAS_SERVED[1] else ''} under MultiWorkerMirroredStrategy"
    announce = saying_once(f"{where}: mended {areas} ({len(found)} functions replaced)")
    for part in found:
        original = getattr(part.owner, part.name)
        setattr(part.owner, part.name, functools.wraps(original)(part.replacement(original, announce)))
    return ", ".join(dict.fromkeys(part.title for part in found))
