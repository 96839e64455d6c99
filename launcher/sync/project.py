"""Which files of a project directory are sent to other hosts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from launcher.cluster.cluster import Sync
from launcher.errors import UsageError
from launcher.on_host.agent.files import path_bytes, path_text
from launcher.on_host.agent.messages import ProjectFile
from launcher.on_host.agent.received import RECORD
from launcher.run_directory.whole_files import shown
from launcher.sync.git import exactly, project_paths
from launcher.transfer.outgoing import PIECE

NEVER_SENT = (b".venv", b"__pycache__", os.fsencode(RECORD))
"""git leaves out `.git` itself."""
VENV_MARK = b"pyvenv.cfg"
"""Stands in every virtual environment, whatever its name; what such a directory holds runs on this machine only."""
NAMED = 5
"""So many files are named in one error."""


@dataclass(frozen=True, slots=True)
class Project:
    """What is sent to every host, by a thread for each."""

    directory: Path
    files: tuple[ProjectFile, ...] = field(repr=False)
    _digests: dict[str, str] = field(default_factory=dict, repr=False)
    _hashing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @contextlib.contextmanager
    def opened(self, file: ProjectFile) -> Iterator[tuple[os.stat_result, Iterator[bytes]]]:
        """The file as it is now, which may not be as it was, and its pieces. An empty file has an empty one.

        Raises:
            UsageError: it is gone, cannot be read, or has become shorter.
        """
        path = os.path.join(os.fsencode(self.directory), path_bytes(file.path))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise self._unreadable(file, error.strerror) from error
        try:
            found = os.fstat(descriptor)
            yield found, self._pieces(file, descriptor, found.st_size)
        finally:
            os.close(descriptor)

    def _pieces(self, file: ProjectFile, descriptor: int, size: int) -> Iterator[bytes]:
        for at in range(0, size or 1, PIECE):
            try:
                data = os.read(descriptor, min(PIECE, size - at))
            except OSError as error:
                raise self._unreadable(file, error.strerror) from error
            if len(data) < min(PIECE, size - at):
                raise self._unreadable(file, "it became shorter while it was read")
            yield data

    def digest(self, file: ProjectFile) -> str:
        """The SHA-256 of a file, computed once for all hosts."""
        with self._hashing:
            if file.path not in self._digests:
                digest = hashlib.sha256()
                with self.opened(file) as (_, pieces):
                    for piece in pieces:
                        digest.update(piece)
                self._digests[file.path] = digest.hexdigest()
            return self._digests[file.path]

    def _unreadable(self, file: ProjectFile, reason: str | None) -> UsageError:
        return UsageError(_cannot_be_read(self.directory / file.path, reason))


def read_project(sync: Sync, left_out: Iterable[Path] = (), meanwhile: Callable[[], None] = lambda: None) -> Project:
    """Find what is to be sent. No file is opened here.

    Args:
        sync: what the cluster file says.
        left_out: paths that are not sent, such as that of the run directories.
        meanwhile: called now and then, for a large project takes its time.

    Raises:
        UsageError: a directory cannot be read, a link leads out of the project, or nothing is left to send.
    """
    root = os.path.realpath(os.fsencode(sync.directory))
    elsewhere = (os.path.relpath(os.path.realpath(os.fsencode(path)), root) for path in left_out)
    patterns = [*map(path_bytes, sync.exclude), *NEVER_SENT, *map(exactly, elsewhere)]
    try:
        paths = project_paths(root, patterns, gitignore=sync.gitignore, meanwhile=meanwhile)
        files = tuple(_files(root, paths.difference(_in_environments(paths))))
    except OSError as error:
        raise UsageError(_cannot_be_read(Path(os.fsdecode(error.filename or root)), error.strerror)) from error
    _refuse_links_that_lead_out(root, files)
    if not files:
        advice = f"look at {'its .gitignore files and ' if sync.gitignore else ''}sync.exclude"
        raise UsageError(f"{shown(sync.directory)}: no file of the project is left to send; {advice}")
    return Project(Path(os.fsdecode(root)), files)


def _cannot_be_read(path: Path, reason: str | None) -> str:
    return f"{shown(path)}: cannot be sent to the hosts: {reason}; mend that, or name it in sync.exclude"


def _files(root: bytes, paths: Iterable[bytes]) -> Iterator[ProjectFile]:
    """What is at those of the paths where there is a file or a link."""
    directories = {b"": True}
    """Whether each is one that no symbolic link leads to: git still lists the files whose directory became a link."""

    def is_directory(path: bytes) -> bool:
        if path not in directories:
            found = _look_at(os.path.join(root, path)) if is_directory(os.path.dirname(path)) else None
            directories[path] = found is not None and stat.S_ISDIR(found.st_mode)
        return directories[path]

    for path in sorted(paths):
        found = _look_at(os.path.join(root, path)) if is_directory(os.path.dirname(path)) else None
        if found is not None and stat.S_ISLNK(found.st_mode):
            target = path_text(os.readlink(os.path.join(root, path)))
            yield ProjectFile(path_text(path), 0, found.st_mtime_ns, found.st_mode & 0o777, target)
        elif found is not None and stat.S_ISREG(found.st_mode):
            yield ProjectFile(path_text(path), found.st_size, found.st_mtime_ns, found.st_mode & 0o777, None)


def _look_at(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _in_environments(paths: Iterable[bytes]) -> Iterator[bytes]:
    """What lies in virtual environments below the project's directory."""
    marks = (b"/" + VENV_MARK,)
    environments = tuple(path[: -len(VENV_MARK)] for path in paths if path.endswith(marks))
    return (path for path in paths if path.startswith(environments))


def _refuse_links_that_lead_out(root: bytes, files: Iterable[ProjectFile]) -> None:
    """A link stays a link on the other hosts: it must mean the same there."""
    wrong = [file for file in files if file.target is not None and _leads_out(root, file)]
    lines = [f"{shown(Path(file.path))} is a link to {shown(Path(file.target or ''))}" for file in wrong[:NAMED]]
    if wrong:
        more = f", and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        raise UsageError(
            f"{', '.join(lines)}{more}: other hosts have nothing there. Make it a relative link to something in the "
            "project, put a copy in its place, or name it in sync.exclude."
        )


def _leads_out(root: bytes, file: ProjectFile) -> bool:
    assert file.target is not None
    if file.target.startswith("/"):
        return True
    end = os.path.realpath(os.path.join(root, path_bytes(file.path)))
    return not (end + b"/").startswith(root.rstrip(b"/") + b"/")
