"""What to do where Keras 3 fails under several workers, by what the log says of the Keras fix. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from launcher.run.failure.failure import Evidence

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


def for_keras_under_several_workers(seen: Evidence) -> str | None:
    """The remedy for a failure that has to do with several workers; None: it has not, or none is sure."""
    refused = _first(_REFUSED, seen.log)
    if refused is not None and _OF_SEVERAL_WORKERS.search("\n".join([seen.text, *seen.calls])):
        pip = f"{seen.runtime.python} -m pip" if seen.runtime.python else "pip"
        install = f"{pip} install '{refused['requirement']}'"
        return f"{refused['keras']} fails so under several workers: {refused['use']} on {seen.host} ({install})"
    if not _WITHOUT_THE_FIX.search(seen.text):
        return None
    if not seen.runtime.has_keras_fix:
        return "Keras 3 fails so under several workers: leave --no-keras-fix, or LAUNCH_KERAS_FIX=0, out"
    if _first(_NOT_THERE, seen.log):
        return "Keras 3 fails so under several workers; its log says why it has no Keras fix"
    if _first(_AT_WORK, seen.log):
        return _LATE_STRATEGY
    return f"{_LATE_STRATEGY}; if Python was started with -I, -E or -S, leave that out: it keeps the Keras fix out"


def _first(pattern: re.Pattern[str], log: Iterable[str]) -> re.Match[str] | None:
    return next(filter(None, map(pattern.match, log)), None)
