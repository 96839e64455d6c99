"""What is gathered as one, and what a look at a host finds and brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from launcher.gathering.remote_files import RemoteFile


@dataclass(frozen=True, slots=True)
class Batch:
    """Files that are of use together only. They are put in place in this order, once all of them have come."""

    name: str
    """What a person calls it: the prefix of a checkpoint, a directory, else the path."""
    files: tuple[RemoteFile, ...]
    is_checkpoint: bool = False
    missing: str = ""
    """What it is of no use without, and what is not there."""

    @property
    def is_noteworthy(self) -> bool:
        """A checkpoint of TensorFlow's or Keras', but not the variables of a SavedModel, which look the same."""
        if self.is_checkpoint:
            return not self.name.endswith("variables/variables")
        return self.name.endswith((".keras", ".weights.h5"))

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def mtime_ns(self) -> int:
        return max(file.mtime_ns for file in self.files)


@dataclass(slots=True)
class Gathered:
    """What a look at a host finds to be brought, and what of it is in place."""

    batches: list[Batch] = field(default_factory=list)
    """What is in place now."""
    received: int = 0
    """Bytes that were sent."""
    left: dict[str, str] = field(default_factory=dict)
    """What is there and was not taken: name -> why."""
    trouble: Exception | None = None
    """Why the disk here did not take, or give up, one file, though the others came; or why nothing came."""
    stays: Sequence[RemoteFile] = ()
    """Files of the output directory that nobody wants here: not asked for, caches, steps on the way to another file."""
    wanted: Sequence[Batch] = ()
    """What is to come, in this order."""

    def add(self, other: Gathered) -> None:
        """Take in what another look has brought."""
        self.batches += other.batches
        self.received += other.received
        self.left = {**self.left, **other.left}
        self.stays = [*self.stays, *other.stays]
        self.trouble = other.trouble or self.trouble
