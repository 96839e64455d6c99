"""Ends the processes of a run, and removes its directory."""

from __future__ import annotations

import os
import shutil
import signal
import time

from launcher.on_host.agent.loop import STOP_REQUEST
from launcher.on_host.agent.processes import UNKILLABLE, send_signal
from launcher.on_host.leftovers.finding import left_directories, left_processes, members, run_of

LOOK = 0.05
"""Seconds between two looks at processes that got a signal."""


def end_run(run: str, grace: float) -> list[int]:
    """End all processes of a run: SIGTERM, after `grace` seconds SIGKILL; return those that could not be ended.

    If an agent is alive, it is asked to have its launcher stop the run: that does so on every host, and records the run
    as stopped. If the workers got SIGTERM from here, a worker that then exits with 0 would look like one that is done.
    """
    under_way = [each for each in members(run) if each.agent is not None]
    send_signal([agent for agent in {each.agent for each in under_way} if agent is not None], STOP_REQUEST)
    signal_members(run, signal.SIGTERM, spared={each.pid for each in under_way})
    await_end(run, grace)
    until = time.monotonic() + UNKILLABLE
    while (left := signal_members(run, signal.SIGKILL)) and time.monotonic() < until:
        await_end(run, LOOK)
    return left


def await_end(run: str, seconds: float) -> None:
    """Wait until the run has no process left, or the time is over."""
    until = time.monotonic() + seconds
    while members(run) and time.monotonic() < until:
        time.sleep(LOOK)


def signal_members(run: str, number: int, spared: set[int] | frozenset[int] = frozenset()) -> list[int]:
    """Signal every process of the run except those in `spared`; return the pids."""
    pids = sorted({each.pid for each in members(run)} - spared)
    for pid in pids:
        if run_of(pid) == run:  # the pid was not reused meanwhile
            send_signal([pid], number)
            send_signal([pid], signal.SIGCONT)  # a suspended process would not get the signal
    return pids


def remove_directory(runs_dir: str, name: str) -> str:
    """Delete a run's directory; return why it could not be deleted, or an empty string."""
    found = next((each for each in left_directories(runs_dir, left_processes()) if each.name == name), None)
    if found is None:
        return "it is not there any more"
    if found.is_used:
        return "its run is under way"
    try:
        shutil.rmtree(found.path)
    except OSError as error:
        return f"{error.filename}: {os.strerror(error.errno or 0)}"
    return ""
