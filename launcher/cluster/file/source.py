"""What a cluster was read from, for those who copy it and those who tell a person what to change there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from launcher.cluster.file.redacted_copy import redacted_copy
from launcher.cluster.file.value_structures import Entries
from launcher.cluster.file.yaml_nodes import Node


class Places(NamedTuple):
    """Where the hosts of a file stand in it; without a file, nowhere."""

    path: Path | None = None
    hosts: Mapping[str, Entries] = {}

    def of(self, hosts: Iterable[str], key: str) -> list[str]:
        """`FILE:LINE` of a key of these hosts, or of the host itself where it does not have that key."""
        entries = [self.hosts[host] for host in hosts if host in self.hosts]
        nodes = [entry.given.get(key, entry.node) for entry in entries]
        return [f"{self.path}:{line}" for line in sorted({node.line for node in nodes})]


class Source(NamedTuple):
    """A file as it was read, once: it may be another one by now."""

    text: str
    root: Node
    places: Places

    def __repr__(self) -> str:
        """Nothing of the text, which may hold secrets: this may end up in a message."""
        return f"Source({self.places.path})"

    def redacted(self) -> str:
        return redacted_copy(self.text, self.root)
