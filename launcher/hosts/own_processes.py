"""Tells the launcher's own processes from children that it inherited.

In `sh -c 'tensorboard & exec launch ...'` the launcher replaces a shell and inherits its children. They, and all that
they start, must outlive the run. In that case a variable in the environment marks what the launcher itself starts.
"""

from __future__ import annotations

import os
import signal
import time

from launcher.on_host.agent.processes import (
    KILL_AGAIN,
    PR_SET_CHILD_SUBREAPER,
    UNKILLABLE,
    environment,
    has_children,
    kill_descendants,
    prctl,
    processes,
    signal_tree,
)

MARK = "LAUNCH_STARTED_BY"


def mark_if_needed() -> None:
    """Set the mark if this process has children before it has started any. To be called first."""
    if has_children():
        os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"


def own_mark() -> str | None:
    """The mark of all that this launcher starts; None if all children are its own. An outer run may have another."""
    mark = os.environ.get(MARK, "")
    return mark if mark.startswith(f"{os.getpid()}-") else None


def adopt_orphans() -> None:
    """Become a subreaper: if agent and guard are killed at once, their orphans become this process's children.

    Not with inherited children, whose orphans would come here, too; then the mark finds what is ours.
    """
    if own_mark() is None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_what_is_left() -> None:
    """SIGKILL everything that this launcher has started and that still runs."""
    mark = own_mark()
    if mark is None:
        kill_descendants()
        return
    deadline = time.monotonic() + UNKILLABLE
    while (left := marked(mark)) and time.monotonic() < deadline:
        for pid in left:
            signal_tree(pid, signal.SIGKILL)
        time.sleep(KILL_AGAIN)


def marked(mark: str) -> list[int]:
    """Every running process with the mark, whatever its parent is by now."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in processes() if wanted in environment(pid)]
