"""Replaces what is faulty in the imported Keras, once a process."""

from __future__ import annotations

import functools
import hashlib
import importlib
from pathlib import Path
from types import ModuleType

from .log import announce_later, say
from .recognising import (
    KERAS_SERVED,
    TRAINER,
    check_versions,
    check_whole,
    dotted,
    keras_on_tensorflow,
    minor_of,
    refusal,
)

MARK = "_multiworker_fix"
"""An attribute of Keras's trainer: what `enable` returned first, whichever copy of this package it was."""


def enable() -> str | None:
    """Replace what is broken in the imported Keras 3; calling it again changes nothing.

    As soon as a model is trained, evaluated or built under that strategy, one line on stderr names the Keras, what was
    replaced, and which copy of this package did it: where several are enabled, the first one stays at work.
    A Keras 3 that cannot be served is left alone, and a line names the versions that can: a program that needs no `fit`
    under that strategy goes on.

    Returns:
        The names of the functions that are now replaced, with commas; None: Keras was left alone (it is Keras 2, it
        does not run on TensorFlow, it cannot be served, or it has none of the faults).
    """
    keras = keras_on_tensorflow()
    if keras is None:
        return None
    try:
        check_versions(minor_of(keras.__version__))
        trainer = importlib.import_module(TRAINER)
        if not hasattr(trainer, MARK):
            setattr(trainer, MARK, replace_faulty(trainer, keras.__version__))
    except (ImportError, AttributeError, TypeError, OSError) as error:
        say(refusal(keras.__version__, str(error)))
        return None
    replaced: str | None = getattr(trainer, MARK)
    return replaced


def replace_faulty(trainer: ModuleType, version: str) -> str | None:
    """Replace each function in which its fault is found; their names with commas, None: there is none."""
    from .parts import parts_of  # it imports TensorFlow, which Keras on another backend does without

    minor = minor_of(version)
    parts = parts_of(trainer, minor)
    found = [part for part in parts if part.is_faulty]
    check_whole([part for part in parts if not part.stands_alone], found)
    if not found:
        say(f"Keras {version} has none of the known faults under MultiWorkerMirroredStrategy: left alone")
        return None
    newest = KERAS_SERVED[1]
    newer = f" (newer than {dotted(newest)}, which is the newest that was tried)" if minor > newest else ""
    areas = ", ".join(dict.fromkeys(part.area for part in found))
    announce_later(
        f"Keras {version}{newer} under MultiWorkerMirroredStrategy: mended {areas} "
        f"({len(found)} functions replaced by {edition()})"
    )
    for part in found:
        original = getattr(part.owner, part.name)
        setattr(part.owner, part.name, functools.wraps(original)(part.replacement(original)))
    return ", ".join(dict.fromkeys(part.title for part in found))


def edition() -> str:
    """Which copy of this package it is: the name that it was imported by, and a digest of its files."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return f"{__package__} {digest.hexdigest()[:8]}"
