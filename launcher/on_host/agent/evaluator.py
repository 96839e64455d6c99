"""Whether an evaluator has seen the last checkpoint, once the training is done and nothing new is written.

It has when the newest checkpoint below its output directory was read after it was written, and the evaluator has been
at rest for a while since. The first is what the file's time of access tells: Linux renews it with the first read after
a write (mount option `relatime`, the default). Where it does not (`noatime`), and where the checkpoints are elsewhere,
rest alone must do: TensorFlow's `SidecarEvaluator` and `checkpoints_iterator` look for a new checkpoint every second.
"""

from __future__ import annotations

import os

from launcher.on_host.agent.processes import descendants, processes
from launcher.on_host.agent.rest import Rest

REST = 3.0
"""Seconds. Measured: a `SidecarEvaluator` that finds nothing new uses no CPU and reads 69 bytes a second."""
LOOK = 0.5
"""Seconds between two looks."""
CHECKPOINTS = (".index", ".weights.h5", ".keras")
"""How the file of a checkpoint ends that is read first, and by everyone: TensorFlow's, and Keras 3's."""


class EvaluatorWatch:
    """Looks at one evaluator from time to time."""

    def __init__(self, name: str, pid: int, directory: str) -> None:
        self.name = name
        self.pid = pid
        self.checkpoint = newest_checkpoint(directory)
        self.rest = Rest()
        self.due = 0.0

    def is_done(self, now: float) -> bool:
        """Whether it has seen the last checkpoint, as far as this look can tell."""
        if now < self.due:
            return False
        self.due = now + LOOK
        pids = [self.pid, *descendants(self.pid, processes())]
        return self.rest.look(pids, 0, now) >= REST and was_read(self.checkpoint)


def newest_checkpoint(directory: str) -> str | None:
    """The file below the directory that was written last and belongs to a checkpoint; None: there is none."""
    found = [
        os.path.join(place, name)
        for place, _, names in os.walk(directory)
        for name in names
        if name.endswith(CHECKPOINTS)
    ]
    return max(found, key=written, default=None)


def written(path: str) -> float:
    """When a file was written last, in seconds since 1970; 0: it is gone."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def was_read(path: str | None) -> bool:
    """Whether a file was read since it was written last; True also where nothing can tell."""
    if path is None:
        return True
    try:
        if os.statvfs(path).f_flag & os.ST_NOATIME:
            return True
        found = os.stat(path)
    except OSError:
        return True
    return found.st_atime_ns > found.st_mtime_ns
