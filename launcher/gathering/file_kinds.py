"""What a file is by its name: a step on the way to another one, a cache, or one that only grows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from launcher.gathering.remote_files import RemoteFile, is_below
from launcher.on_host.agent.files import EVERYTHING

_TEMPORARY = re.compile(
    r"""(?sx)
    (?:.*/)?workertemp_\d+/.*                  # another worker's than the chief's: Keras, TensorFlow's tutorials
    | .*_temp/part-\d+-of-\d+\.[^/]*           # the parts of a checkpoint under way
    | .*\.tempstate\d+                         # what a part is called before it is whole
    | .*\.tmp(?:[0-9a-f]{32})?                 # what TensorFlow, and most others, replace a file with
    | .*(?:~|\.swp)                            # an editor's
    | (?:.*/)?\.nfs[0-9a-f]{8,}                # removed while somebody had it open
    | .*\.orbax-checkpoint-tmp[^/]{0,255}/.*      # Keras' OrbaxCheckpoint
    """
)
_CACHE = re.compile(
    r"""(?sx)
    (?:.*/)?(?:__pycache__|\.?cache|\.ipynb_checkpoints)/.*
    | (?:.*/)?+(?=[^/]*cache)[^/]*\.(?:index|data-\d{5,}-of-\d{5,})  # tf.data's `cache`: they look like a checkpoint's
    | .*\.lockfile                                                  # tf.data's, while it writes them
    """
)
_GROWING = re.compile(r"(?s)(?:.*/)?events\.out\.tfevents\.[^/]*")


def is_temporary(path: str) -> bool:
    """Whether a file is a step on the way to another one, by its name."""
    return _TEMPORARY.fullmatch(path) is not None


def is_cache(path: str, names: Iterable[str] = (EVERYTHING,)) -> bool:
    """Whether a file was made to save time on its own host: one in a cache below these names. Who names it wants it."""
    named = [f"{path}/".removeprefix(f"{name}/").removesuffix("/") for name in names if is_below(path, [name])]
    return all(_CACHE.fullmatch(rest) for rest in named)


def grows(path: str) -> bool:
    """Whether a file is only ever appended to, and read by others meanwhile: TensorBoard's."""
    return _GROWING.fullmatch(path) is not None


def lasting(files: Iterable[RemoteFile]) -> list[RemoteFile]:
    """Those that are neither steps on the way to another file nor caches."""
    return [file for file in files if not is_temporary(file.path) and not is_cache(file.path)]
