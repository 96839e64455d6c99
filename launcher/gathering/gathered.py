"""What a look at a host has brought."""

from __future__ import annotations

from dataclasses import dataclass, field

from launcher.gathering.remote_files import RemoteFile
from launcher.gathering.selection import Batch


@dataclass(slots=True)
class Gathered:
    """Files that are in place now, and those that are not."""

    batches: list[Batch] = field(default_factory=list)
    received: int = 0
    """Bytes that were sent."""
    left: dict[str, str] = field(default_factory=dict)
    """What is there and was not taken: name -> why."""
    trouble: OSError | None = None
    """Why the disk here did not take, or give up, one file: the others came nevertheless."""
    stays: tuple[RemoteFile, ...] = ()
    """Files of the output directory that nobody wants here."""

    def add(self, other: Gathered) -> None:
        """Take in what another look has brought."""
        self.batches += other.batches
        self.received += other.received
        self.left = {**self.left, **other.left}
        self.stays += other.stays
        self.trouble = self.trouble or other.trouble
