"""The processes of a host, as this machine sees them; and waiting for what they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from rig.lab import RigError

PATIENCE = 120.0
"""Seconds after which what the rig waits for is declared missing."""


def await_true(condition: Callable[[], object], what: str) -> None:
    """Return once the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RigError(f"never happened: {what}")
        time.sleep(0.005)


def processes_beside(pid: int) -> list[psutil.Process]:
    """All that live in the same pid namespace, this one included."""
    namespace = Path(f"/proc/{pid}/ns/pid").readlink()
    found = []
    for each in psutil.pids():
        with suppress(OSError, psutil.NoSuchProcess):
            process = psutil.Process(each)
            if Path(f"/proc/{each}/ns/pid").readlink() == namespace and not has_ended(process):
                found.append(process)
    return found


def is_sshd(process: psutil.Process) -> bool:
    """Whether it is sshd, be it the one that listens or one of a session."""
    with suppress(psutil.Error):
        return Path(process.exe()).name.startswith("sshd")
    return False


def command_of(process: psutil.Process) -> list[str]:
    """Its words; none: it has ended meanwhile."""
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def name_of(process: psutil.Process) -> str:
    """Its name; empty: it has ended meanwhile."""
    with suppress(psutil.Error):
        return process.name()
    return ""


def pid_on_host(process: psutil.Process) -> int | None:
    """Its number in the innermost namespace."""
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


def has_ended(process: psutil.Process) -> bool:
    """Whether it runs no more, though its parent may not have asked for its end yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def stands_still(process: psutil.Process) -> bool:
    """Whether it is stopped, or has ended."""
    try:
        return process.status() in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE}
    except psutil.NoSuchProcess:
        return True
