"""What a probe answers: made on the host, read by the launcher out of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PythonFound:
    """The Python that would run the workers."""

    version: str
    executable: str


@dataclass(frozen=True)
class ProgramFound:
    """What a worker would run, or the reason why it cannot."""

    path: str | None = None
    reason: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    """A digest of each of the user's own files that it consists of, by path below the place where it was found."""


@dataclass(frozen=True)
class Surroundings:
    """What a worker inherits: proxies, how many files it may open, the encoding of its output, CUDA_VISIBLE_DEVICES."""

    proxies: Mapping[str, str] = field(default_factory=dict)
    open_files: int = 1 << 20
    encoding: str = "utf-8"
    visible_gpus: str | None = None


@dataclass(frozen=True)
class NetworkCard:
    """The card that has a host's address. Speed in Mbit/s, 0 if unknown."""

    name: str = ""
    mtu: int = 0
    speed: int = 0


@dataclass(frozen=True)
class Gpu:
    """Memory in MiB, 0 if unknown, as for memory that it shares with the CPU."""

    index: int
    name: str
    memory: int
    used: int


@dataclass(frozen=True)
class Gpus:
    """What NVIDIA's driver says; without a driver there are neither devices nor a complaint."""

    driver: str = ""
    cuda: str = ""
    """The newest version that the driver supports."""
    devices: tuple[Gpu, ...] = ()
    complaint: str = ""


@dataclass(frozen=True)
class DiskRoom:
    """The disk to which runs would be written, in bytes, and the user as whom the workers would run."""

    root: str
    free: int
    total: int
    there: str
    """The root, or the nearest directory above it that exists. It has this owner and mode."""
    owner: str
    mode: str
    user: str


@dataclass(frozen=True)
class TensorFlowFound:
    """What TensorFlow says when it is imported, or the reason why it cannot be imported."""

    version: str = ""
    gpus: int = 0
    cuda: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Speed:
    """How fast one host sends to another, or the reason why that could not be measured."""

    rate: float = 0.0
    """Bytes a second."""
    round_trip: float = 0.0
    """Seconds, without load."""
    retransmitted: int = 0
    """Packets."""
    reason: str = ""


@dataclass(frozen=True)
class Answers:
    """All that a host answered, each part under the name of its function; None: no answer, or not asked."""

    python: PythonFound | None = None
    packages: Mapping[str, str] | None = None
    """Versions by name."""
    program: ProgramFound | None = None
    surroundings: Surroundings | None = None
    gate: str | None = None
    """Why its kernel cannot keep strangers off the workers' ports; empty if it can."""
    network_cards: Mapping[str, NetworkCard] | None = None
    """By address."""
    gpus: Gpus | None = None
    room: DiskRoom | None = None
    unsafe: tuple[str, ...] | None = None
    """Why others could exchange what a run has there, and what to do, in the words of a run."""
    unwritable: str | None = None
    """Why nothing can be written where runs are; empty if it can."""
    seen: tuple[str, ...] | None = None
    """The other hosts whose files it sees where it would write its own."""
    tensorflow: TensorFlowFound | None = None
    measured: Speed | None = None
    """Of the link that it was asked to measure last."""
    trouble: tuple[tuple[str, str], ...] = ()
    """Parts that could not be found out, and why."""
