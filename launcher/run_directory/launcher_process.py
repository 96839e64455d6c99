"""Which process runs a run, and whether it lives: told without a clock, which may be set in the meantime."""

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
"""Places in /proc/PID/stat behind the name of the program."""
ENDED = ("Z", "X")
"""States of a process that only its parent still knows."""


SUSPENDED = "T"
"""By SIGSTOP."""


class Life(Enum):
    """What can be known of a process from here."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Launcher:
    """The process that runs a run. A pid alone may be another process's by now, or be one of another machine."""

    pid: int
    host: str = ""
    """Empty in the files of earlier versions, of which only the pid can be used."""
    machine: str = ""
    """What tells apart two machines of the same name."""
    boot_id: str = ""
    pid_namespace: str = ""
    start_ticks: int = 0
    """When it was started, counted from the start of the machine: no clock's to change."""

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
        """Where the process is, for a message of this one."""
        here = Launcher.this_process()
        if not self.host or self.is_seen_from(here):
            return f"process {self.pid} on {self.host or here.host}"
        if self.boot_id and self.boot_id == here.boot_id:
            return (
                f"process {self.pid} in another PID namespace (a container) of this machine, called {self.host} there"
            )
        return f"process {self.pid} on {self.host}"

    def is_seen_from(self, here: Launcher) -> bool:
        """Whether both processes are numbered by the same kernel in the same way."""
        return bool(self.boot_id) and (self.boot_id, self.pid_namespace) == (here.boot_id, here.pid_namespace)

    def is_suspended(self) -> bool:
        """Whether it lives and does nothing, not even end by a signal, before somebody lets it go on."""
        return self.life() is Life.ALIVE and (_state(str(self.pid)) or "?")[0] == SUSPENDED

    def life(self) -> Life:
        """Whether the very process still runs, as far as it can be seen from here."""
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
    """The state of a process and its start; None: there is none of that number."""
    words = _read(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()
    return (words[STATE].decode(), int(words[START_TICKS])) if len(words) > START_TICKS else None


def _is_launcher(pid: int) -> bool:
    """Whether the process of that number may be one of ours, by its command line."""
    return b"launch" in _read(Path(f"/proc/{pid}/cmdline"))


def _pid_namespace() -> str:
    try:
        return os.readlink(PID_NAMESPACE)  # noqa: PTH115 - it is no path
    except OSError:
        return ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # no /proc, no such process, or a machine without a number
