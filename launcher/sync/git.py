"""Which files belong to a project. git is asked, also where the project lies in no repository.

What a repository tracks belongs to it, and what its ignore rules do not name. That is true of a submodule, too, and of
any other repository inside, each by its own rules.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from subprocess import PIPE

from launcher.errors import UsageError
from launcher.run_directory.whole_files import shown
from launcher.wording import harmless_line

LOOK = 0.2
"""Seconds after which `meanwhile` is called while git works."""
USERS_CONFIGURATION = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""The only variables of git's that count here: others would have it look at another repository."""
ENVIRONMENT = {
    "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
NO_GIT = (
    "git decides which files belong to the project that `sync` sends, and cannot be run here: {}; "
    "install it (on Debian and Ubuntu: apt-get install git)"
)
CANNOT_OPEN = b"warning: could not open directory "
"""git goes on without what it cannot read. A project with a part missing is none."""


def project_paths(
    root: bytes, patterns: Sequence[bytes], *, gitignore: bool, meanwhile: Callable[[], None]
) -> set[bytes]:
    """The paths of all files and symbolic links that belong to a project, below its directory.

    Some may not be there: a tracked file that was deleted is still listed.

    Args:
        root: the project's directory, without symbolic links.
        patterns: as in `.gitignore`, from there on. What they name is left out, whatever a repository says.
        gitignore: whether the rules of repositories count.
        meanwhile: called now and then while git works.

    Raises:
        UsageError: there is no git here, or it cannot tell.
    """
    with tempfile.TemporaryDirectory(prefix="tf-launch-git-") as temporary:
        git = _Git(root, patterns, gitignore, os.fsencode(temporary), meanwhile)
        paths = set(git.paths())
        return paths - git.left_out(paths)


class _Git:
    """git, with a repository of our own, which stays empty: for what lies in no other, and for the patterns."""

    def __init__(
        self, root: bytes, patterns: Sequence[bytes], gitignore: bool, temporary: bytes, meanwhile: Callable[[], None]
    ) -> None:
        self._root = root
        self._patterns = patterns
        self._gitignore = gitignore
        self._meanwhile = meanwhile
        self._own = os.path.join(temporary, b"git")
        self._empty = os.path.join(temporary, b"empty")
        os.mkdir(self._empty)
        self._run(b"init", b"--quiet", b"--bare", b"--template=", self._own)

    def paths(self, inner: bytes = b"") -> Iterator[bytes]:
        """What belongs to the project, or to a repository inside of it (`inner`: its path, with a slash)."""
        directory = os.path.join(self._root, inner)
        repository = _repository_around(directory)
        where = [] if repository else [b"--git-dir=" + self._own, b"--work-tree=" + directory]
        rules = [b"--exclude-standard"] if self._gitignore else []
        if not inner:
            way = os.path.relpath(directory, repository) if repository else b"."
            rules += (b"--exclude=" + _seen_from_above(each, way) for each in self._patterns)
        found = self._run(b"-C", directory, *where, b"ls-files", b"-z", b"--cached", b"--others", *rules)
        for path in found.split(b"\0")[:-1]:
            below = os.path.join(directory, path)
            if os.path.islink(below) or not os.path.isdir(below):
                yield inner + path
            elif os.path.lexists(os.path.join(below, b".git")):
                yield from self.paths(inner + path.rstrip(b"/") + b"/")

    def left_out(self, paths: Iterable[bytes]) -> set[bytes]:
        """Those that the patterns name: `ls-files` holds tracked files, and what is inside, against none of them."""
        os.mkdir(os.path.join(self._own, b"info"))
        Path(os.fsdecode(self._own), "info/exclude").write_bytes(b"\n".join([*self._patterns, b""]))
        where = [b"-C", self._empty, b"--git-dir=" + self._own, b"--work-tree=" + self._empty]
        words = [b"-c", b"core.excludesFile=/dev/null", b"check-ignore", b"-z", b"--stdin", b"--no-index"]
        given = b"".join(b"./%b\0" % path for path in paths)  # else a name that begins with `:` were something else
        return {path.removeprefix(b"./") for path in self._run(*where, *words, given=given).split(b"\0")[:-1]}

    def _run(self, *words: bytes, given: bytes = b"") -> bytes:
        command = [b"git", b"-c", b"core.fsmonitor=false", *words]  # that one would leave a process behind
        try:
            process = subprocess.Popen(
                command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=_environment(), start_new_session=True
            )
        except OSError as error:
            raise UsageError(NO_GIT.format(error.strerror)) from error
        with process:
            try:
                printed, complaint = self._communicated(process, given)
            except BaseException:
                process.kill()
                raise
        nothing_found = b"check-ignore" in words and process.returncode == 1
        if (process.returncode and not nothing_found) or CANNOT_OPEN in complaint:
            raise UsageError(_cannot_tell(self._root, complaint.decode("utf-8", "replace"), process.returncode))
        return printed

    def _communicated(self, process: subprocess.Popen[bytes], given: bytes) -> tuple[bytes, bytes]:
        left: bytes | None = given
        while True:
            try:
                return process.communicate(left, LOOK)
            except subprocess.TimeoutExpired:
                left = None  # it has been taken over
                self._meanwhile()


def exactly(path: bytes) -> bytes:
    """The pattern that names one path of the project, and what is below it."""
    return b"/" + _quoted(path)


def _quoted(path: bytes) -> bytes:
    """A path as part of a pattern. No pattern can hold an end of a line; `?` fits it."""
    return re.sub(rb"[\r\n]", b"?", re.sub(rb"([\\*?\[ ])", rb"\\\1", path))


def _seen_from_above(pattern: bytes, way: bytes) -> bytes:
    """A pattern of the project as one of the repository around it; `way` leads from there to the project.

    That is where `--exclude` of `git ls-files` begins. Nor does it overlook spaces at the end.
    """
    back = b"!" if pattern.startswith(b"!") else b""
    pattern = re.sub(rb"(?<!\\) +$", b"", pattern[len(back) :])
    if way == b".":
        return back + pattern
    between = b"/" if b"/" in pattern.rstrip(b"/") else b"/**/"
    return back + exactly(way) + between + pattern.removeprefix(b"/")


def _repository_around(directory: bytes) -> bytes | None:
    """The directory with the `.git` of the repository that a directory is in."""
    while not os.path.lexists(os.path.join(directory, b".git")):
        above = os.path.dirname(directory.rstrip(b"/"))
        if len(above) >= len(directory):
            return None
        directory = above
    return directory


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {name: os.environ[name] for name in USERS_CONFIGURATION if name in os.environ} | ENVIRONMENT


def _cannot_tell(root: bytes, complaint: str, code: int) -> str:
    directory = shown(Path(os.fsdecode(root)))
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    reason = harmless_line(lines[0]) if lines else f"exit code {code}"
    remedy = f"make `git -C {directory} status` work"
    if command := next((line for line in lines if line.startswith("git config ")), None):
        remedy = f"if you trust what lies there: {harmless_line(command)}"
    if CANNOT_OPEN.decode() in complaint:
        remedy = "mend that, or name it in sync.exclude"
    return f"{directory}: git cannot tell which files belong to the project: {reason}; {remedy}"
