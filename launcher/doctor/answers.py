"""What a host told of itself (`launcher.on_host.probe`), as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from launcher.on_host.agent.framing import UnreadableError, decoded


@dataclass(frozen=True, slots=True)
class Python:
    """The one that would run the workers."""

    version: str
    executable: str


@dataclass(frozen=True, slots=True)
class Program:
    """What a worker would run."""

    path: str | None = None
    reason: str = ""
    """Why it cannot be run."""
    files: Mapping[str, str] = field(default_factory=dict)
    """A digest of each file of the user's own that makes it up, by its path below where it was found."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker inherits."""

    proxies: Mapping[str, str] = field(default_factory=dict)
    open_files: int = 1 << 20
    """How many it may open."""
    encoding: str = "utf-8"
    """Of what it prints."""
    visible_gpus: str | None = None
    """CUDA_VISIBLE_DEVICES."""


@dataclass(frozen=True, slots=True)
class NetworkCard:
    """The one that has the host's address."""

    name: str = ""
    mtu: int = 0
    speed: int = 0
    """Mbit/s; 0: it does not tell."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """Memory in MiB."""

    index: int
    name: str
    memory: int
    used: int


@dataclass(frozen=True, slots=True)
class Gpus:
    """What NVIDIA's driver knows."""

    driver: str = ""
    cuda: str = ""
    """The newest version that the driver can run."""
    devices: tuple[Gpu, ...] = ()
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class Room:
    """Where runs would be written, in bytes."""

    root: str
    free: int
    total: int
    there: str
    """The root, or the nearest directory above it that exists already; owner and mode are this one's."""
    owner: str
    mode: str
    user: str
    """As whom the workers would run."""


@dataclass(frozen=True, slots=True)
class TensorFlow:
    """What it said when it was imported."""

    version: str
    gpus: int
    cuda: str
    reason: str
    """Why it cannot be imported."""


@dataclass(frozen=True, slots=True)
class Answers:
    """All that one host told; None: it did not come to that."""

    python: Python | None = None
    packages: Mapping[str, str] | None = None
    """Versions by name."""
    program: Program | None = None
    surroundings: Surroundings | None = None
    network_cards: Mapping[str, NetworkCard] | None = None
    """By address."""
    gpus: Gpus | None = None
    room: Room | None = None
    unsafe: tuple[str, ...] | None = None
    """Why others could put something else in the place of what a run has there, and what to do, in words of the run."""
    unwritable: str | None = None
    """Why nothing can be written where runs go; empty: it can."""
    seen: tuple[str, ...] | None = None
    """The hosts whose files are seen there, too."""
    unmarked: bool = False
    """Its own file is gone again."""
    tensorflow: TensorFlow | None = None
    trouble: tuple[tuple[str, str], ...] = ()
    """What could not be found out, and why."""
    all_told: bool = False
    """Nothing more is to come without being asked for."""

    @classmethod
    def of(cls, said: bytes, word: str) -> Answers:
        """From whole lines of JSON behind a word. What others print, a sitecustomize for example, is passed over.

        Raises:
            UnreadableError: such a line is not what a probe of ours tells.
        """
        told: dict[str, Any] = {}
        trouble = []
        for line in said.splitlines(keepends=True):
            if line.startswith(word.encode()) and line.endswith(b"\n"):
                parts = decoded(line[len(word) :])
                trouble += [parts["trouble"]] if "trouble" in parts else []
                told.update(parts)
        try:
            return msgspec.convert({**told, "trouble": trouble}, cls)
        except msgspec.ValidationError as error:
            raise UnreadableError(f"an answer of its probe: {error}") from error
