"""The output directory: is there room, can we write, and do other hosts see what is written?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from launcher.on_host.agent.own_directory import user_name, why_unsafe
from launcher.on_host.probe.answers import DiskRoom

SOME = bytes(1 << 16)
"""What is written: too much for a file system to keep without allocating a block."""


class Output:
    """A directory that a run would write to. `clean` removes what was made there for the trial."""

    def __init__(self) -> None:
        self._missing: list[Path] = []
        """Directories that were not there before."""
        self._marker = Path()

    def room(self, root: str) -> DiskRoom:
        """What can be seen of it without changing anything."""
        there = next(path for path in (Path(root), *Path(root).parents) if path.exists())
        disk, entry = os.statvfs(there), there.stat()
        free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        owner, mode = user_name(entry.st_uid), f"{entry.st_mode & 0o7777:o}"
        return DiskRoom(root, free, total, str(there), owner, mode, user_name(os.geteuid()))

    def unwritable(self, root: str, marker: str) -> str:
        """Why nothing can be written there; empty if it can, and then the marker is there for other hosts to see."""
        directory = Path(root)
        try:
            self._missing = [path for path in (directory, *directory.parents) if not path.exists()]
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._marker = directory / marker
            with self._marker.open("xb") as file:
                file.write(SOME)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            return f"{error.strerror} ({error.filename or root})"
        return ""

    def seen(self, markers: Mapping[str, str]) -> list[str]:
        """The hosts, of these with their markers, whose marker is there."""
        return [host for host, marker in markers.items() if self._marker.with_name(marker).exists()]

    def unmarked(self) -> bool:
        """Remove the marker. Hosts that share a disk all do this before `clean`, so that the directories are empty."""
        with contextlib.suppress(OSError):
            self._marker.unlink()
        return True

    def clean(self) -> None:
        """Remove what the trial has made."""
        self.unmarked()
        for path in self._missing:
            with contextlib.suppress(OSError):
                path.rmdir()


def unsafe(*trusted: tuple[str, str, bool]) -> list[str]:
    """Why others could exchange what is in these directories, each given as `why_unsafe` takes it."""
    return [why for path, key, is_new in trusted if (why := why_unsafe(path, key, is_new=is_new))]
