"""Where in a cluster file something stands, for those who tell a person what to change there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from launcher.cluster.file.keys import read_entries


class Places:
    """The hosts of a file that has been read before; of no file at all, nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        hosts = read_entries(path)[2] if path else ()
        self._hosts = {host.values["host"]: host for host in hosts}

    def of(self, hosts: Iterable[str], key: str) -> list[str]:
        """`FILE:LINE` of a key of these hosts, or of the host itself where it does not have that key."""
        entries = [self._hosts[host] for host in hosts if host in self._hosts]
        nodes = [entry.given.get(key, entry.node) for entry in entries]
        return [f"{self._path}:{line}" for line in sorted({node.line for node in nodes})]
