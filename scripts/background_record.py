"""What is written down of each run in the background: which process it is, and how it ended. Python 3.9 or later."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PLACE = Path("~/.tf-launch/background").expanduser()
"""A file NAME.json and a file NAME.log for each run."""


class BackgroundError(Exception):
    """What the user asks for cannot be done; the message says why and what to do."""


@dataclass(frozen=True)
class Run:
    """A program in the background, as its file has it."""

    name: str
    command: Sequence[str]
    directory: str
    began: float
    """Seconds since 1970."""
    tmux: bool
    program: Sequence[int] = (0, 0)
    """The process: its pid, and when the kernel started it, for a pid is used again. Zeros: it has not started."""
    keeper: Sequence[int] = (0, 0)
    """The process that stays with it and writes down how it ends."""
    exit_code: int | None = None
    """As a shell has it; None: it has not ended, or nobody was left to see it."""

    @property
    def log(self) -> Path:
        """What it wrote."""
        return PLACE / f"{self.name}.log"

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended, as far as anybody can know."""
        return self.exit_code is None and any(pid and started_at(pid) == at for pid, at in (self.program, self.keeper))

    @property
    def socket(self) -> str:
        """The name of its tmux server: one of its own, with the environment of this run."""
        return f"tf-launch-{self.name}"

    def save(self) -> None:
        """Write the file, whole."""
        new = PLACE / f".{self.name}.json.{os.getpid()}"
        new.write_text(json.dumps(asdict(self), indent=1) + "\n")
        new.replace(PLACE / f"{self.name}.json")


def runs() -> Iterator[Run]:
    """All that have a file, the oldest first."""
    found = (read(path.stem) for path in PLACE.glob("*.json"))
    yield from sorted((run for run in found if run is not None), key=lambda run: run.began)


def read(name: str) -> Run | None:
    """A run's file."""
    try:
        return Run(**json.loads((PLACE / f"{name}.json").read_text()))
    except FileNotFoundError:
        return None


def named(name: str | None) -> Run:
    """The run that the user means."""
    if name is None:
        alive = [run for run in runs() if run.is_alive]
        if len(alive) > 1:
            raise BackgroundError(f"say which run: {', '.join(run.name for run in alive)}")
        if not alive:
            raise BackgroundError("no run is alive; scripts/background status lists those that were")
        return alive[0]
    run = read(name)
    if run is None:
        known = ", ".join(run.name for run in runs()) or "none yet"
        raise BackgroundError(f"there is no run {name}; known: {known}")
    return run


def started_at(pid: int) -> int:
    """When a process started, in the kernel's ticks; 0: it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])
