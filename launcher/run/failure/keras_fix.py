"""What to do where Keras 3 fails under several workers, by what the log says of the Keras fix. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from launcher.run.failure.failure import Runtime

_REFUSED = re.compile(
    r"tf-launch: (?P<keras>Keras [\w.+-]+) cannot be mended for MultiWorkerMirroredStrategy \(.{0,300}?\): "
    r"(?P<use>use Keras [\w. ]+): pip install '(?P<requirement>keras>=[\d.]+,<[\d.]+)'$"
)
_NOT_THERE = re.compile(r"tf-launch: no Keras fix, `Model\.fit` may fail: ")
_AT_WORK = re.compile(r"tf-launch: Keras [^\n]{1,200} under MultiWorkerMirroredStrategy: (?:mended |left alone)")
_OF_SEVERAL_WORKERS = re.compile(
    r"PerReplica|Invalid reduction dimension 0|\bCollective[A-Z]|tensorflow/python/distribute/"
)
_WITHOUT_THE_FIX = re.compile(r"unsupported type <?[^\n]{0,500}PerReplica|Invalid reduction dimension 0")

_LATE_STRATEGY = "create the strategy before the model"


def for_keras_under_several_workers(
    text: str, calls: Sequence[str], log: Sequence[str], host: str, runtime: Runtime
) -> str | None:
    """The remedy for a failure that has to do with several workers; None: it has not, or none is sure.

    Args:
        text: the exception with all that it says.
        calls: the lines of the traceback above it.
        log: the lines of the whole log.
        host: where it ran.
        runtime: with what it was started.
    """
    refused = _first(_REFUSED, log)
    if refused is not None and _OF_SEVERAL_WORKERS.search("\n".join([text, *calls])):
        pip = f"{runtime.python} -m pip" if runtime.python else "pip"
        install = f"{pip} install '{refused['requirement']}'"
        return f"{refused['keras']} fails so under several workers: {refused['use']} on {host} ({install})"
    if not _WITHOUT_THE_FIX.search(text):
        return None
    if not runtime.has_keras_fix:
        return "Keras 3 fails so under several workers: leave --no-keras-fix, or LAUNCH_KERAS_FIX=0, out"
    if _first(_NOT_THERE, log):
        return "Keras 3 fails so under several workers; its log says why it has no Keras fix"
    if _first(_AT_WORK, log):
        return _LATE_STRATEGY
    return f"{_LATE_STRATEGY}; if Python was started with -I, -E or -S, leave that out: it keeps the Keras fix out"


def _first(pattern: re.Pattern[str], log: Iterable[str]) -> re.Match[str] | None:
    return next(filter(None, map(pattern.match, log)), None)
