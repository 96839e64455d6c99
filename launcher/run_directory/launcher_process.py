"""Identifies the launcher process of a run, and tells whether it is alive, without relying on clocks."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MACHINE_ID = Path("/etc/machine-id")
PID_NAMESPACE = "/proc/self/ns/pid"
STATE, START_TICKS = 0, 19
"""Indices of fields in /proc/PID/stat, after the name of the program."""
ENDED = ("Z", "X")
"""States of a process that has ended."""
SUSPENDED = "T"
"""The state of a process that got SIGSTOP."""


class Life(Enum):
    """What can be known about a process from here."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Launcher:
    """The identity of a launcher process. Its pid alone may be reused, or belong to another machine or container."""

    pid: int
    host: str = ""
    """Empty in files of earlier versions, which have only the pid."""
    machine: str = ""
    """Distinguishes two machines of the same name."""
    boot_id: str = ""
    pid_namespace: str = ""
    start_ticks: int = 0
    """When it was started, in clock ticks since boot, which setting the clock does not change."""

    @classmethod
    def this_process(cls) -> Launcher:
        state = _state("self")
        return cls(
            os.getpid(),
            os.uname().nodename,
            f"{zlib.crc32(_read(MACHINE_ID)):08x}",
            _read(BOOT_ID).decode("ascii", "replace").strip(),
            _pid_namespace(),
            state[1] if state else 0,
        )

    @property
    def place(self) -> str:
        """Where the process is, for a message."""
        here = Launcher.this_process()
        if not self.host or self.is_seen_from(here):
            return f"process {self.pid} on {self.host or here.host}"
        if self.boot_id and self.boot_id == here.boot_id:
            return (
                f"process {self.pid} in another PID namespace (a container) of this machine, called {self.host} there"
            )
        return f"process {self.pid} on {self.host}"

    def is_seen_from(self, here: Launcher) -> bool:
        """Whether both processes are in the same PID namespace of the same boot, so that pids mean the same."""
        return bool(self.boot_id) and (self.boot_id, self.pid_namespace) == (here.boot_id, here.pid_namespace)

    def is_suspended(self) -> bool:
        """Whether it is suspended, so that it does not even react to SIGTERM before it gets SIGCONT."""
        return self.life() is Life.ALIVE and (_state(str(self.pid)) or "?")[0] == SUSPENDED

    def life(self) -> Life:
        """Whether exactly this process still runs, as far as that can be seen from here."""
        here = Launcher.this_process()
        if not self.host:
            return Life.UNKNOWN if _is_launcher(self.pid) else Life.GONE
        if self.is_seen_from(here):
            state = _state(str(self.pid))
            lives = state is not None and state[0] not in ENDED and state[1] == self.start_ticks
            return Life.ALIVE if lives else Life.GONE
        is_this_machine = (self.host, self.machine) == (here.host, here.machine) and MACHINE_ID.exists()
        was_rebooted = is_this_machine and self.boot_id and here.boot_id and self.boot_id != here.boot_id
        return Life.GONE if was_rebooted else Life.UNKNOWN


def _state(pid: str) -> tuple[str, int] | None:
    """The state and start of a process; None if there is none with that pid."""
    words = _read(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()
    return (words[STATE].decode(), int(words[START_TICKS])) if len(words) > START_TICKS else None


def _is_launcher(pid: int) -> bool:
    """Whether a process may be a launcher, by its command line."""
    return b"launch" in _read(Path(f"/proc/{pid}/cmdline"))


def _pid_namespace() -> str:
    try:
        return os.readlink(PID_NAMESPACE)  # noqa: PTH115 - the target is no path
    except OSError:
        return ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # no /proc, no such process, or no /etc/machine-id
