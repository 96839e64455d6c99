"""Hosts behind ssh: those of the project's rig, with tiny workers on them that report to this machine."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from machine import ROOT
from processes import Running, started
from workers import Meeting, meeting

sys.path.append(str(ROOT / "tests"))
from rig import Host, Rig
from rig import missing as obstacle

__all__ = ["WORKER", "Host", "Rig", "end_all", "hosts_up", "meeting_on", "obstacle", "on_login_machine"]

SEEN_IN = Path("/run/rig")
"""Where a host sees the directory that this machine has for it."""
WORKER = SEEN_IN / "worker"


@contextmanager
def hosts_up(count: int, disk: str = "256m") -> Iterator[Rig]:
    """So many hosts, on none of which this checkout is, and the machine from which people log in to them."""
    with Rig(count, private=[ROOT], disk=disk) as rig:
        yield rig


@contextmanager
def meeting_on(hosts: Sequence[Host], directory: Path, work: str = "") -> Iterator[Meeting]:
    """A meeting for workers on hosts that do `work`; `WORKER` is their program there.

    After it nothing of the run is left on them. The hosts share no file system, but the kernel: a FIFO that each of
    them has under a hard link is the same FIFO, and what a worker writes into it arrives here as it does from a worker
    of this machine.
    """
    with meeting(directory, SEEN_IN) as place, contextlib.ExitStack() as stack:
        place.worker(work)
        for host in hosts:
            stack.callback(end_all, host)
        for file in directory.iterdir():
            for host in hosts:
                os.link(file, host.directory / file.name)
                stack.callback((host.directory / file.name).unlink)
        yield place


def end_all(host: Host) -> None:
    """Mend what was broken, and end whatever is left there, ssh sessions too: the next run must not meet them."""
    host.clear()
    for process in host.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    host.kill_ssh_sessions()


@contextmanager
def on_login_machine(rig: Rig, argv: Sequence[str], directory: Path) -> Iterator[Running]:
    """Start a program where people log in; its `ssh` knows the hosts."""
    with started([*rig.login.words, *argv], directory, env=rig.environment) as running:
        yield running
