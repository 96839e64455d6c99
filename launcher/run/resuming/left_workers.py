"""Workers of a launcher that was killed: until their agent has stopped them, nobody else may use their directory."""

from __future__ import annotations

import os
import time
from pathlib import Path

from launcher.errors import LaunchError
from launcher.on_host.agent.processes import environment, processes

PATIENCE = 5.0
"""Seconds. The agent of a launcher that has gone needs 0.3 s, on a busy machine more."""
LOOK = 0.02


def await_their_end(run: str, output_dir: Path) -> None:
    """Return once no process of this machine works for the run.

    Raises:
        LaunchError: some go on.
    """
    until = time.monotonic() + PATIENCE
    mark = b"LAUNCH_OUTPUT_DIR=" + os.fsencode(output_dir)
    while left := [pid for pid in processes() if pid != os.getpid() and mark in environment(pid)]:
        if time.monotonic() >= until:
            pids = " ".join(map(str, left))
            raise LaunchError(
                f"run {run}: processes of its last attempt still run and would write to its files: end them first "
                f"(kill -9 {pids})"
            )
        time.sleep(LOOK)
