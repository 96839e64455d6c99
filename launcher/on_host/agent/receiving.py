"""The project of the launching machine, received into a directory of this host.

In four steps, each of which the launcher asks for: compare (what is missing here, what stands in the way), prepare
(delete what has gone there), take (files, piece by piece; or rsync brings them), settle (is all there?). The work is
done in slices, so that the agent stays awake. A file is there whole or not at all; nothing of the user's is touched.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from launcher.on_host.agent.comparing import DOUBTFUL, WANTED, Comparison, InTheWayError, hashing
from launcher.on_host.agent.messages import (
    BringProjectPiece,
    PrepareProject,
    ProjectCompared,
    ProjectFailed,
    ProjectPieceBrought,
    ProjectPrepared,
    ProjectSettled,
    ProjectWaits,
)
from launcher.on_host.agent.own_directory import UnsafeError, own_directory
from launcher.on_host.agent.placing import STAGING, Placing
from launcher.on_host.agent.received import (
    RECORD,
    ROUGH_CLOCK,
    Received,
    RecordFile,
    is_directory,
    look_at,
    parents,
    place,
)

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable, Iterator
    from typing import Any

    from launcher.on_host.agent.messages import Command, CompareProject, Event

SLICE = 0.02
"""Seconds of work after which the agent looks after its other duties."""
TURN_LOOK = 0.1
"""Seconds between two looks whether another launch is done with the directory."""


class Receiving:
    def __init__(self, tell: Callable[[Event], None], asked: CompareProject) -> None:
        """Begin to compare. `tell`: sends the launcher an event."""
        self.due = 0.0
        """When `proceed` wants to be called, on the monotonic clock."""
        self._name = asked.top
        self._shown = os.path.abspath(os.path.expanduser(asked.top))
        self._directory: int | None = None
        self._top = os.fsencode(self._shown)
        """From the beginning of the work on, through the directory's descriptor: nothing can be put in its place."""
        self._files: list[tuple[Any, ...]] = [
            (path, *stamp) if target is None else (path, target) for path, *stamp, target in asked.files
        ]
        self._tell = tell
        self._work: Iterator[float] | None = self._compare()
        self._at = "."
        """What is being dealt with, for errors."""
        self._record = RecordFile(self._top)
        self._received = Received()
        self._placing = Placing(self._top, self._received)
        self._modes: list[int] = []
        """Files that are here as they should be, but for their permissions."""
        self._inodes: dict[int, int] = {}
        """Files that are to come -> the inode that was there before."""

    def obey(self, asked: Command) -> None:
        if isinstance(asked, PrepareProject):
            self._work = self._prepare(asked)
        elif isinstance(asked, BringProjectPiece):
            self._add(asked)
        else:
            self._work = self._settle()

    @property
    def busy(self) -> bool:
        return self._work is not None

    def proceed(self) -> None:
        until = time.monotonic() + SLICE
        try:
            while self._work is not None and self.due <= time.monotonic() < until:
                pause = next(self._work, None)
                if pause is None:
                    self._work = None
                elif pause:
                    self.due = time.monotonic() + pause
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.close()
        told = isinstance(error, UnsafeError)  # with its own place and remedy
        code = "" if told else errno.errorcode.get(error.errno or 0, "EIO")
        self._tell(ProjectFailed(error.filename if told else self._at, code, error.strerror or str(error)))

    def close(self) -> None:
        """Let go of everything; what has not come in whole disappears."""
        self._work = None
        self._placing.abort()
        self._record.release()
        if self._directory is not None:
            os.close(self._directory)
            self._directory = None

    # ---- compare
    def _compare(self) -> Iterator[float]:
        self._directory = own_directory(self._name, "workdir", private=False)
        self._top = b"/proc/self/fd/%d" % self._directory
        self._record = RecordFile(self._top)
        self._at = RECORD
        yield from self._take_turn()
        self._received = self._record.received()
        self._placing = Placing(self._top, self._received)
        self._placing.sweep()
        wanted: list[int] = []
        doubtful: list[tuple[int, str, str]] = []
        in_the_way: list[tuple[str, str]] = []
        comparison = Comparison(self._top, self._files, self._received)
        for number, file in enumerate(self._files):
            self._at = file[0]
            try:
                verdict = comparison.verdict(file)
            except InTheWayError as error:
                in_the_way.append((self._at, str(error)))
                continue
            if verdict == WANTED:
                wanted.append(number)
            elif verdict == DOUBTFUL:
                digests: list[str] = []
                yield from hashing(place(self._top, self._at), digests)
                found = os.lstat(place(self._top, self._at))
                doubtful.append((number, digests[0], comparison.objection(self._at, found)))
            elif len(file) > 2 and os.lstat(place(self._top, self._at)).st_mode & 0o777 != file[3]:
                self._modes.append(number)
            yield 0.0
        over = not any((wanted, doubtful, in_the_way, self._modes, self._gone()))
        space = os.statvfs(self._top)
        free, freed = space.f_bavail * space.f_frsize, sum(self._old_size(self._files[number][0]) for number in wanted)
        if over:
            self.close()
        rsync = has_program("rsync")
        self._tell(ProjectCompared(self._shown, over, free, freed, rsync, wanted, doubtful, in_the_way))

    def _old_size(self, path: str) -> int:
        found = look_at(self._top, path)
        return found.st_size if found else 0

    def _gone(self) -> set[str]:
        return self._received.paths() - {file[0] for file in self._files}

    def _take_turn(self) -> Iterator[float]:
        told = False
        while not self._record.claim():
            if not told:
                self._tell(ProjectWaits(self._shown))
                told = True
            yield TURN_LOOK

    # ---- prepare
    def _prepare(self, asked: PrepareProject) -> Iterator[float]:
        ways = {way for file in self._files for way in parents(file[0])}
        gone = self._gone()
        self._announce(asked.wanted, ways)
        for path in sorted(gone):
            self._do(self._placing.delete, path)
            yield 0.0
        for path in sorted(set(self._received.directories) - ways, reverse=True):
            self._do(self._placing.delete_directory, path)
        for path in sorted(ways):
            self._do(self._placing.make_directory, path)
        for number in asked.same:
            self._do(self._placing.adopt, *self._files[number])
            yield 0.0
        for number in self._modes:
            path, _, _, mode = self._files[number]
            self._do(self._placing.set_mode, path, mode)
        for number in asked.wanted:
            if len(self._files[number]) == 2:
                self._do(self._placing.link, *self._files[number])
                yield 0.0
        if asked.staging:
            self._do(self._placing.make_staging)
        self._tell(ProjectPrepared(self._placing.deleted, self._placing.kept))

    def _do(self, change: Callable[..., None], *arguments: Any) -> None:
        self._at = arguments[0] if arguments else STAGING
        change(*arguments)

    def _announce(self, wanted: list[int], ways: set[str]) -> None:
        """Write down what will be put here before any of it is."""
        for number in wanted:
            path, *stamp = self._files[number]
            if len(stamp) > 1:
                found = look_at(self._top, path)
                self._inodes[number] = found.st_ino if found else 0
                self._received.arriving[path] = stamp[:2]
        new = {way for way in ways if not is_directory(self._top, way)}
        self._received.directories = sorted({*self._received.directories, *new})
        self._at = RECORD
        self._record.write(self._received)

    # ---- take
    def _add(self, asked: BringProjectPiece) -> None:
        if not self._record.is_held:
            return  # it has failed; what was on its way still arrives
        self._at = path = self._files[asked.number][0]
        try:
            if asked.at == 0:
                self._placing.begin(path)
            self._placing.write(asked.data)
            if asked.at + len(asked.data) == asked.size:
                self._placing.finish(path, asked.size, asked.sha256, asked.mtime_ns, asked.mode)
        except OSError as error:
            self._fail(error)
            return
        self._tell(ProjectPieceBrought())

    # ---- settle
    def _settle(self) -> Iterator[float]:
        missing = []
        for number, inode in self._inodes.items():
            self._at, size, mtime_ns, _ = self._files[number]
            if self._at in self._received.arriving and not self._was_brought(self._at, size, mtime_ns, inode):
                missing.append(number)
            yield 0.0
        self._at = RECORD
        if not missing:
            self._placing.remove_staging()
        self._record.write(self._received)
        if not missing:
            self.close()
        self._tell(ProjectSettled(missing))

    def _was_brought(self, path: str, size: int, mtime_ns: int, before: int) -> bool:
        """Whether rsync has put a file in its place."""
        found = look_at(self._top, path)
        # rsync puts a file in its place by rename: the inode of before is the file that was to be replaced.
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_ino == before:
            return False
        if found.st_size != size or abs(found.st_mtime_ns - mtime_ns) >= ROUGH_CLOCK:
            return False
        self._received.has_arrived(path, size, mtime_ns, found.st_mtime_ns)
        return True


def has_program(name: str) -> bool:
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(each, name), os.X_OK) for each in places)
