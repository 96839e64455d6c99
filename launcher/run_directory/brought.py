"""`brought.json`: what was brought to each host, as it was there then, so that nobody takes it for the host's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from launcher.on_host.agent.received import ROUGH_CLOCK
from launcher.run_directory.whole_files import write_whole

Stamp = tuple[int, int]
"""Bytes, and the time of modification in nanoseconds."""


class Brought:
    """What was brought to which host of a run."""

    def __init__(self, path: Path) -> None:
        """Read the file; where there is none, or none of ours, nothing was brought."""
        self._path = path
        self._hosts: dict[str, dict[str, Stamp]] = {}
        try:
            told = json.loads(path.read_bytes())
            self._hosts = {host: {name: (*stamp,) for name, stamp in files.items()} for host, files in told.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return

    def is_ours(self, host: str, path: str, size: int, mtime_ns: int) -> bool:
        """Whether a file of a host is what was brought there, unchanged. Some file systems round its time."""
        known = self._hosts.get(host, {}).get(path)
        return known is not None and known[0] == size and abs(known[1] - mtime_ns) < ROUGH_CLOCK

    def add(self, host: str, files: Iterable[tuple[str, int, int]]) -> None:
        """Write down what is about to be brought to a host: path, bytes, time of modification (ns) of each file.

        Raises:
            LaunchError: it cannot be written down.
        """
        self._hosts.setdefault(host, {}).update({path: (size, mtime_ns) for path, size, mtime_ns in files})
        write_whole(self._path, json.dumps(self._hosts).encode())
