"""The machine that the numbers come from, and how busy it is."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUIET = 0.35
"""Load a core up to which a machine counts as quiet."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the reader of a number must know of its origin."""

    cores: int
    processor: str
    memory_gb: float
    kernel: str
    python: str
    commit: str
    load: float
    """Processes ready to run, averaged over the minute before the start."""

    @property
    def quiet(self) -> bool:
        """Whether nobody else was at work."""
        return self.load <= QUIET * self.cores

    def text(self) -> str:
        """One line."""
        return (
            f"{self.cores} cores ({self.processor}), {self.memory_gb:.0f} GB, {self.kernel}, Python {self.python}; "
            f"commit {self.commit}; load average at the start {self.load:.2f}"
        )


def this_machine() -> Machine:
    """As it is now."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        processor=processor(),
        memory_gb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        commit=commit(),
        load=os.getloadavg()[0],
    )


def processor() -> str:
    """Its name, where the kernel tells one."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def commit() -> str:
    """What is checked out."""
    argv = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        said = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return said.stdout.strip() or "unknown"
