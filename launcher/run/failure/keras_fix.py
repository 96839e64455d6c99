"""The remedy for a Keras that `training/keras_fix` has left as it is, told by its line in the log. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_REFUSED = re.compile(
    r"tf-launch: (?P<keras>Keras [\w.+-]+) cannot be mended for MultiWorkerMirroredStrategy \(.{0,300}?\): "
    r"(?P<use>use Keras [\w. ]+): pip install '(?P<requirement>keras>=[\d.]+,<[\d.]+)'$"
)
_OF_SEVERAL_WORKERS = re.compile(
    r"PerReplica|Invalid reduction dimension 0|\bCollective[A-Z]|tensorflow/python/distribute/"
)


def for_refused_keras(
    text: str, calls: Sequence[str], log: Sequence[str], host: str, python: str | None = None
) -> str | None:
    """Another Keras, where the log tells of the refusal and what failed has to do with several workers.

    Args:
        text: the exception with all that it says.
        calls: the lines of the traceback above it.
        log: the lines of the whole log.
        host: where it ran.
        python: the interpreter that it was started with.
    """
    refused = next(filter(None, map(_REFUSED.match, log)), None)
    if refused is None or not _OF_SEVERAL_WORKERS.search("\n".join([text, *calls])):
        return None
    pip = f"{python} -m pip" if python else "pip"
    install = f"{pip} install '{refused['requirement']}'"
    return f"{refused['keras']} fails so under several workers: {refused['use']} on {host} ({install})"
