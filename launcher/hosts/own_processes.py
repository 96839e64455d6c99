"""Which processes are this launcher's, where it has children that are not.

In `sh -c 'tensorboard & exec launch ...'` the launcher takes the place of a shell, and has its children. They, and all
that they start, must outlive the run. So what the launcher starts bears a mark there, in its environment.
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
    """Before anything is started: see whether somebody else has started children of this process."""
    if has_children():
        os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"


def own_mark() -> str | None:
    """What all that this launcher starts bears; None: all of its children are its own. A run may be inside another."""
    mark = os.environ.get(MARK, "")
    return mark if mark.startswith(f"{os.getpid()}-") else None


def adopt_orphans() -> None:
    """Should agent and guard be killed in one stroke, what they leave becomes this process's child.

    Not where others have children here: theirs would come, too, and marks tell whose is whose.
    """
    if own_mark() is None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_what_is_left() -> None:
    """SIGKILL all that this launcher has started and that still lives."""
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
    """Every living process that bears the mark, whoever is its parent by now."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in processes() if wanted in environment(pid)]
