"""Whether an evaluator has evaluated the last checkpoint, once training is done and no new checkpoint is written.

It has if the newest checkpoint below its output directory was read after it was written, and the evaluator has been
idle for a while since. The file's access time tells whether it was read: Linux updates it with the first read after a
write (mount option `relatime`, the default). Where Linux does not (`noatime`), or where the checkpoints are elsewhere,
idleness alone must do: TensorFlow's `SidecarEvaluator` and `checkpoints_iterator` poll for checkpoints every second.
"""

from __future__ import annotations

import os

from launcher.on_host.agent.processes import descendants, processes
from launcher.on_host.agent.rest import Rest

REST = 3.0
"""Idle seconds. Measured: a `SidecarEvaluator` without a new checkpoint uses no CPU and reads 69 bytes a second."""
LOOK = 0.5
"""Seconds between two looks."""
CHECKPOINTS = (".index", ".weights.h5", ".keras")
"""Endings of the file of a checkpoint that every reader opens first: TensorFlow's, and Keras 3's."""


class EvaluatorWatch:
    """Watches one evaluator."""

    def __init__(self, name: str, pid: int, directory: str) -> None:
        self.name = name
        self.pid = pid
        self.checkpoint = newest_checkpoint(directory)
        self.rest = Rest()
        self.due = 0.0

    def is_done(self, now: float) -> bool:
        """Whether it has evaluated the last checkpoint. To be called often; looks every `LOOK` seconds."""
        if now < self.due:
            return False
        self.due = now + LOOK
        pids = [self.pid, *descendants(self.pid, processes())]
        return self.rest.measure(pids, 0, now) >= REST and was_read(self.checkpoint)


def newest_checkpoint(directory: str) -> str | None:
    """The most recently written checkpoint file below the directory; None if there is none."""
    found = [
        os.path.join(place, name)
        for place, _, names in os.walk(directory)
        for name in names
        if name.endswith(CHECKPOINTS)
    ]
    return max(found, key=written, default=None)


def written(path: str) -> float:
    """When a file was last written, in seconds since 1970; 0 if it is gone."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def was_read(path: str | None) -> bool:
    """Whether a file was read since it was last written; True also where the file system does not tell."""
    if path is None:
        return True
    try:
        if os.statvfs(path).f_flag & os.ST_NOATIME:
            return True
        found = os.stat(path)
    except OSError:
        return True
    return found.st_atime_ns > found.st_mtime_ns
