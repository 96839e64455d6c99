"""`brought.json`: what was brought to each host, as it was there then, so that nobody takes it for the host's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from launcher.gathering.remote_files import RemoteFile
from launcher.run_directory.whole_files import write_whole


class Brought:
    """What is known of all hosts of a run."""

    def __init__(self, path: Path) -> None:
        """Read the file; where there is none, or none of ours, nothing was brought."""
        self._path = path
        try:
            told = json.loads(path.read_bytes())
            self._hosts = {host: {name: tuple(stamp) for name, stamp in files.items()} for host, files in told.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            self._hosts = {}

    def is_ours(self, host: str, file: RemoteFile) -> bool:
        """Whether a file of a host is what was brought there, unchanged."""
        return self._hosts.get(host, {}).get(file.path) == (file.size, file.mtime_ns)

    def add(self, host: str, files: Iterable[RemoteFile]) -> None:
        """These are about to be brought to a host.

        Raises:
            LaunchError: it cannot be written down.
        """
        self._hosts.setdefault(host, {}).update({file.path: (file.size, file.mtime_ns) for file in files})
        write_whole(self._path, json.dumps(self._hosts).encode())
