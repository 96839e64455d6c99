"""The output directory: is there room, may we write, and do other hosts see what is written?"""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from launcher.on_host.agent.own_directory import why_unsafe
from launcher.on_host.probe.answers import DiskRoom

SOME = bytes(1 << 16)
"""What is written: more than a file system keeps without asking for a block."""


class Output:
    """A directory that a run would write to. What is made there for the trial is removed by `clean`."""

    def __init__(self) -> None:
        self._missing: list[Path] = []
        """Directories that were not there before."""
        self._marker = Path()

    def room(self, root: str) -> DiskRoom:
        """What can be said of it without touching anything."""
        there = next(path for path in (Path(root), *Path(root).parents) if path.exists())
        disk, entry = os.statvfs(there), there.stat()
        free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        owner, mode = user_name(entry.st_uid), f"{entry.st_mode & 0o7777:o}"
        return DiskRoom(root, free, total, str(there), owner, mode, user_name(os.geteuid()))

    def unwritable(self, root: str, marker: str) -> str:
        """Why nothing can be written there; empty if it can, and then the marker is there, which others may see."""
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
        """The hosts whose markers are there, of these (by host)."""
        return [host for host, marker in markers.items() if self._marker.with_name(marker).exists()]

    def unmarked(self) -> bool:
        """Remove the marker. Where hosts share a disk all do this first, so that the directories are empty then."""
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


def user_name(uid: int) -> str:
    """The user need not be known here by name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
