"""What a probe answers: made on the host, read by the launcher out of JSON. Each part has the name of its function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PythonFound:
    """The one that would run the workers."""

    version: str
    executable: str


@dataclass(frozen=True)
class ProgramFound:
    """What a worker would run; the reason is why it cannot be."""

    path: str | None = None
    reason: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    """A digest of each file of the user's own that makes it up, by its path below where it was found."""


@dataclass(frozen=True)
class Surroundings:
    """What a worker inherits: proxies, how many files it may open, the encoding of its output, CUDA_VISIBLE_DEVICES."""

    proxies: Mapping[str, str] = field(default_factory=dict)
    open_files: int = 1 << 20
    encoding: str = "utf-8"
    visible_gpus: str | None = None


@dataclass(frozen=True)
class NetworkCard:
    """The one that has a host's address. Speed in Mbit/s; 0: it does not tell."""

    name: str = ""
    mtu: int = 0
    speed: int = 0


@dataclass(frozen=True)
class Gpu:
    """Memory in MiB; 0 where it is not told, as with memory that it shares with the CPU."""

    index: int
    name: str
    memory: int
    used: int


@dataclass(frozen=True)
class Gpus:
    """What NVIDIA's driver knows; without a driver no devices and no complaint."""

    driver: str = ""
    cuda: str = ""
    """The newest version that the driver can run."""
    devices: tuple[Gpu, ...] = ()
    complaint: str = ""


@dataclass(frozen=True)
class DiskRoom:
    """Where runs would be written, in bytes, and the user as whom the workers would run."""

    root: str
    free: int
    total: int
    there: str
    """The root, or the nearest directory above it that exists already; owner and mode are this one's."""
    owner: str
    mode: str
    user: str


@dataclass(frozen=True)
class TensorFlowFound:
    """What TensorFlow says when it is imported, or the reason why it cannot be."""

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
