"""`brought.json`: what was brought to each host, as it was there then, so that it is not taken for the host's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from launcher.gathering.remote_files import RemoteFile
from launcher.on_host.agent.received import ROUGH_CLOCK
from launcher.run_directory.whole_files import write_whole


class Brought:
    """What was brought to which host of a run."""

    def __init__(self, path: Path) -> None:
        """Read the file; where there is none, or none of ours, nothing was brought."""
        self._path = path
        self._hosts: dict[str, dict[str, tuple[int, int]]] = {}
        """Size and time of each file, by host and path."""
        try:
            told = json.loads(path.read_bytes())
            self._hosts = {host: {name: (*stamp,) for name, stamp in files.items()} for host, files in told.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return

    def is_ours(self, host: str, file: RemoteFile) -> bool:
        """Whether a file of a host is what was brought there, unchanged. Some file systems round its time."""
        size, mtime_ns = self._hosts.get(host, {}).get(file.path, (-1, 0))
        return size == file.size and abs(mtime_ns - file.mtime_ns) < ROUGH_CLOCK

    def add(self, host: str, files: Iterable[RemoteFile]) -> None:
        """Write down what is about to be brought to a host.

        Raises:
            LaunchError: it cannot be written down.
        """
        self._hosts.setdefault(host, {}).update({file.path: file.stamp for file in files})
        write_whole(self._path, json.dumps(self._hosts).encode())
