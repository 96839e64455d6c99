"""A directory of this host into which a project is received (`workdir` in the cluster file)."""

from __future__ import annotations

import contextlib
import os
import stat

from launcher.on_host.agent.files import open_above, path_bytes, path_text
from launcher.on_host.agent.own_directory import own_directory

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator


class Workdir:
    """Everything in it is reached through its descriptor: nothing can be put in its place meanwhile.

    All paths are below it, as they are on the wire.
    """

    def __init__(self, name: str) -> None:
        """Open it; what is missing of it is made.

        Raises:
            UnsafeError: others may write in it.
            OSError: it cannot be made...
        """
        self.path = os.path.abspath(os.path.expanduser(name))
        """For messages."""
        self._fd = own_directory(name, "workdir", private=False)

    def close(self) -> None:
        os.close(self._fd)

    # ---- what is there
    def place(self, path: str) -> bytes:
        """Where something is, as long as this is open."""
        return b"/proc/self/fd/%d/%b" % (self._fd, path_bytes(path))

    def look_at(self, path: str) -> os.stat_result | None:
        """What is at a path, or None. A link is not followed."""
        try:
            return os.lstat(self.place(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def has_directory(self, path: str) -> bool:
        """Whether a directory is at a path; a link to one is none."""
        found = self.look_at(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def link_target(self, path: str) -> str:
        return path_text(os.readlink(self.place(path)))

    def names_in(self, path: str) -> list[str]:
        return [path_text(name) for name in os.listdir(self.place(path))]

    def free(self) -> int:
        """Bytes that there is room for."""
        space = os.statvfs(self._fd)
        return space.f_bavail * space.f_frsize

    # ---- to change it
    @contextlib.contextmanager
    def above(self, path: str) -> Iterator[tuple[int, bytes]]:
        """The directory that something is in, opened through no link, and its name there."""
        directory, name = open_above(os.dup(self._fd), path)
        try:
            yield directory, name
        finally:
            os.close(directory)

    @contextlib.contextmanager
    def itself(self, path: str) -> Iterator[str]:
        """A path that leads to what is there now, whatever is put in its place; not to what a link leads to."""
        with self.above(path) as (directory, name):
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)
        try:
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)


def parents(path: str) -> list[str]:
    """The directories on the way to a path, from the top on."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]
