"""What of a project is there already, what is missing, and what of the user's stands in the way. Changes nothing."""

from __future__ import annotations

import os
import stat

from launcher.on_host.agent.messages import DoubtfulFile
from launcher.on_host.agent.workdir import parents

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator

    from launcher.on_host.agent.messages import ProjectFile
    from launcher.on_host.agent.received import Received
    from launcher.on_host.agent.workdir import Workdir

HASHED_AT_ONCE = 1 << 20
"""Bytes."""


class Comparison:
    """A project beside a directory, file after file. Files are called by their number in the project's list."""

    def __init__(self, workdir: Workdir, received: Received, files: list[ProjectFile]) -> None:
        """Nothing is looked at yet."""
        self.wanted: list[int] = []
        """They are missing, or may be replaced."""
        self.doubtful: list[DoubtfulFile] = []
        self.in_the_way: list[tuple[str, str]] = []
        """Path, and what stands there."""
        self.other_modes: list[ProjectFile] = []
        """They are there as they should be, but for their permissions."""
        self._workdir = workdir
        self._received = received
        self._files = files
        self._coming = {file.path for file in files}
        self._ways: dict[str, str] = {}
        """Directories that were looked at -> what stands there instead, or nothing."""

    @property
    def finds_nothing(self) -> bool:
        """Every file is there as it should be."""
        return not (self.wanted or self.doubtful or self.in_the_way or self.other_modes)

    def steps(self) -> Iterator[str]:
        """Compare all files; yield the path of each before it is looked at, and while it is read."""
        for number, file in enumerate(self._files):
            yield file.path
            if obstacle := self._obstacle(file.path):
                self.in_the_way.append((file.path, obstacle))
            elif found := self._workdir.look_at(file.path):
                yield from self._compare(number, file, found)
            else:
                self.wanted.append(number)

    def _compare(self, number: int, file: ProjectFile, found: os.stat_result) -> Iterator[str]:
        if self._received.is_current(file, found):
            if found.st_mode & 0o777 != file.mode:
                self.other_modes.append(file)
        elif file.target is None and stat.S_ISREG(found.st_mode) and found.st_size == file.size:
            yield from self._look_into(number, file.path)
        elif stat.S_ISLNK(found.st_mode) and self._workdir.link_target(file.path) == file.target:
            pass  # nor does a link have a mode of its own
        elif objection := self._objection(file.path, found):
            self.in_the_way.append((file.path, objection))
        else:
            self.wanted.append(number)

    def _look_into(self, number: int, path: str) -> Iterator[str]:
        import hashlib  # only files that are doubtful need it

        digest = hashlib.sha256()
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(self._workdir.place(path), flags), "rb") as file:
            while data := file.read(HASHED_AT_ONCE):
                digest.update(data)
                yield path
        found = os.lstat(self._workdir.place(path))
        self.doubtful.append(DoubtfulFile(number, digest.hexdigest(), self._objection(path, found)))

    def _objection(self, path: str, found: os.stat_result) -> str:
        """Why what was found at a path must not be replaced; nothing if it may be."""
        if stat.S_ISDIR(found.st_mode):
            return "" if self._goes_away(path) else "is a directory there"
        if self._received.is_unchanged(self._workdir, path, found):
            return ""
        if path in self._received.paths():
            return "was changed there since it was sent"
        return f"is {'a file that differs' if stat.S_ISREG(found.st_mode) else kind(found)} there"

    def _goes_away(self, directory: str) -> bool:
        """Whether a directory was made by us and holds nothing but what will be deleted."""
        if directory not in self._received.directories:
            return False
        return all(self._is_leaving(f"{directory}/{name}") for name in self._workdir.names_in(directory))

    def _is_leaving(self, path: str) -> bool:
        found = self._workdir.look_at(path)
        return found is not None and path not in self._coming and not self._objection(path, found)

    def _obstacle(self, path: str) -> str:
        """Every directory on the way must be one, or be missing. A link to one leads to a place that is not ours."""
        for directory in parents(path):
            if directory not in self._ways:
                found = self._workdir.look_at(directory)
                blocked = found is not None and not stat.S_ISDIR(found.st_mode) and not self._is_leaving(directory)
                self._ways[directory] = kind(found) if found is not None and blocked else ""
            if self._ways[directory]:
                return f"cannot be put there: {directory} is {self._ways[directory]}"
        return ""


def kind(found: os.stat_result) -> str:
    if stat.S_ISREG(found.st_mode):
        return "a file"
    if stat.S_ISDIR(found.st_mode):
        return "a directory"
    return "a symbolic link" if stat.S_ISLNK(found.st_mode) else "neither a file nor a directory"
