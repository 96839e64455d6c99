"""Which files of a project directory are sent to other hosts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from launcher.cluster.cluster import Sync
from launcher.cluster.file.ignoring import IgnoreRules
from launcher.errors import UsageError
from launcher.on_host.agent.comparing import HASHED_AT_ONCE
from launcher.on_host.agent.received import RECORD
from launcher.run_directory.whole_files import shown

NEVER_SENT = {b".git", b".venv", b"__pycache__", os.fsencode(RECORD)}
VENV_MARK = b"pyvenv.cfg"
"""Stands in every virtual environment, whatever its name; what such a directory holds runs on this machine only."""
NAMED = 5
"""So many files are named in one error."""


class ProjectFile(NamedTuple):
    """A file or a symbolic link, as it stood when the project was read."""

    path: str
    """Below the project directory. Bytes that are no UTF-8 stand as surrogates, in whatever locale."""
    size: int
    mtime_ns: int
    mode: int
    target: str | None = None
    """Where a symbolic link points to."""


@dataclass(frozen=True, slots=True)
class Project:
    """What is sent to every host. Its files are read in pieces, so that nobody waits for a large one."""

    directory: Path
    files: tuple[ProjectFile, ...] = field(repr=False)
    _digests: dict[str, str] = field(default_factory=dict, repr=False)

    @contextlib.contextmanager
    def opened(self, file: ProjectFile) -> Iterator[tuple[int, os.stat_result]]:
        """A descriptor for reading, and the file as it is now.

        Raises:
            UsageError: it is gone, or cannot be read.
        """
        path = os.path.join(os.fsencode(self.directory), _bytes(file.path))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise self._unreadable(file, error.strerror) from error
        try:
            yield descriptor, os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def read(self, file: ProjectFile, descriptor: int, count: int) -> bytes:
        """The next `count` bytes.

        Raises:
            UsageError: there are fewer.
        """
        try:
            data = os.read(descriptor, count)
        except OSError as error:
            raise self._unreadable(file, error.strerror) from error
        if len(data) < count:
            raise self._unreadable(file, "it became shorter while it was read")
        return data

    def digest(self, file: ProjectFile) -> Generator[bool, Any, str]:
        """The SHA-256 of a file; yields in between."""
        if file.path not in self._digests:
            digest = hashlib.sha256()
            with self.opened(file) as (descriptor, stamp):
                for at in range(0, stamp.st_size, HASHED_AT_ONCE):
                    digest.update(self.read(file, descriptor, min(HASHED_AT_ONCE, stamp.st_size - at)))
                    yield True
            self._digests[file.path] = digest.hexdigest()
        return self._digests[file.path]

    def _unreadable(self, file: ProjectFile, reason: str | None) -> UsageError:
        return UsageError(_cannot_be_read(self.directory / file.path, reason))


def read_project(sync: Sync, left_out: Iterable[Path] = (), meanwhile: Callable[[], None] = lambda: None) -> Project:
    """Find what is to be sent; no file is opened but `.gitignore`.

    Args:
        sync: what the cluster file says.
        left_out: paths that are not sent, such as that of the run directories.
        meanwhile: called now and then, for a large project takes its time.

    Raises:
        UsageError: a directory cannot be read, a link leads out of the project, or nothing is left to send.
    """
    root = os.path.realpath(os.fsencode(sync.directory))
    not_sent = {os.path.relpath(os.path.realpath(os.fsencode(path)), root) for path in left_out}
    try:
        files = tuple(_files(root, _Rules.from_above(root, sync), not_sent, meanwhile))
    except OSError as error:
        raise UsageError(_cannot_be_read(Path(os.fsdecode(error.filename or root)), error.strerror)) from error
    _refuse_links_that_lead_out(root, files)
    if not files:
        advice = f"look at {'its .gitignore files and ' if sync.gitignore else ''}sync.exclude"
        raise UsageError(f"{shown(sync.directory)}: no file of the project is left to send; {advice}")
    return Project(Path(os.fsdecode(root)), files)


def _cannot_be_read(path: Path, reason: str | None) -> str:
    return f"{shown(path)}: cannot be sent to the hosts: {reason}; mend that, or name it in sync.exclude"


class _Level(NamedTuple):
    """The rules of one `.gitignore`, and where it stands: above the project, or below it."""

    rules: IgnoreRules
    above: bytes = b""
    """From the rules' directory to the project's."""
    below: int = 0
    """Length of the way from the project's directory to the rules'."""


class _Rules(NamedTuple):
    """All that holds in one directory, the strongest first."""

    levels: tuple[_Level, ...]
    gitignore: bool

    @classmethod
    def from_above(cls, root: bytes, sync: Sync) -> _Rules:
        """What the cluster file says, then the `.gitignore` files of the repository around the project."""
        excluded = _Level(IgnoreRules("\n".join(sync.exclude).encode("utf-8", "surrogateescape")))
        return cls((excluded, *(_repository_rules(root) if sync.gitignore else ())), sync.gitignore)

    def within(self, path: bytes, directory: bytes) -> _Rules:
        """The same with those of a directory's own file, where there is one."""
        text = _text(os.path.join(directory, b".gitignore")) if self.gitignore else b""
        first, *others = self.levels
        return self._replace(levels=(first, _Level(IgnoreRules(text), below=len(path)), *others)) if text else self

    def leave_out(self, path: bytes, is_directory: bool) -> bool:
        """Whether a path of the project is left out; the directories on the way to it are not."""
        for rules, above, below in self.levels:
            decided = rules.decide(above + path[below:], is_directory)
            if decided is not None:
                return decided
        return False


def _repository_rules(root: bytes) -> Iterator[_Level]:
    """Those of the directories above, up to the one with `.git`; none outside of a repository."""
    tops = [root]
    while not os.path.lexists(os.path.join(tops[-1], b".git")):
        tops.append(os.path.dirname(tops[-1]))
        if tops[-1] == tops[-2]:
            return
    files = [(top, b".gitignore") for top in tops[1:]] + [(tops[-1], b".git/info/exclude")]
    for top, name in files:
        above = root[len(top) :].strip(b"/")
        yield _Level(IgnoreRules(_text(os.path.join(top, name))), above and above + b"/")


def _text(path: bytes) -> bytes:
    """A file's content; as with git, a symbolic link counts as no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(fd).st_mode) else b""


def _files(root: bytes, rules: _Rules, not_sent: set[bytes], meanwhile: Callable[[], None]) -> Iterator[ProjectFile]:
    waiting = [(b"", rules)]
    while waiting:
        meanwhile()
        path, rules = waiting.pop()
        directory = os.path.join(root, path)
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        if path and any(entry.name == VENV_MARK for entry in entries):
            continue
        rules = rules.within(path, directory)
        for entry in entries:
            below = path + entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name in NEVER_SENT or below in not_sent or rules.leave_out(below, is_directory):
                continue
            if is_directory:
                waiting.append((below + b"/", rules))
            elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                yield _project_file(entry, below)


def _project_file(entry: os.DirEntry[bytes], path: bytes) -> ProjectFile:
    status = entry.stat(follow_symlinks=False)
    target = _text_of(os.readlink(entry.path)) if entry.is_symlink() else None
    size = 0 if entry.is_symlink() else status.st_size
    return ProjectFile(_text_of(path), size, status.st_mtime_ns, stat.S_IMODE(status.st_mode) & 0o777, target)


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
    end = os.path.realpath(os.path.join(root, _bytes(file.path)))
    return not (end + b"/").startswith(root.rstrip(b"/") + b"/")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text_of(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
