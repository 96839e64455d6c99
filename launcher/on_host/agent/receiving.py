"""The project of the launching machine, received into a directory of this host.

In four steps, each of which the launcher asks for: compare (what is missing here, what stands in the way), prepare
(delete what has gone there), bring (files, piece by piece; or rsync brings them), settle (is all there?). A file is
there whole or not at all; nothing of the user's is touched.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import time

from launcher.on_host.agent.comparing import Comparison
from launcher.on_host.agent.jobs import Job
from launcher.on_host.agent.messages import (
    BringProjectPiece,
    CompareProject,
    PrepareProject,
    ProjectCompared,
    ProjectFailed,
    ProjectPieceBrought,
    ProjectPrepared,
    ProjectSettled,
    ProjectWaits,
    SettleProject,
)
from launcher.on_host.agent.own_directory import UnsafeError
from launcher.on_host.agent.placing import STAGING, Placing
from launcher.on_host.agent.received import RECORD, ROUGH_CLOCK, Received, RecordFile
from launcher.on_host.agent.workdir import Workdir, parents

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable, Generator

    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.messages import Event, ProjectFile

    Work = Generator[str, None, Event]
    """Yields the path that it deals with next, again and again; returns the answer."""

SLICE = 0.02
"""Seconds of work after which the agent looks after its other duties."""
TURN_LOOK = 0.1
"""Seconds between two looks whether another launch is done with the directory."""


class Receiving(Job):
    """Does what the launcher asks for in slices, so that the agent stays awake."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._project: ArrivingProject | None = None
        self._work: Work | None = None
        self._at = ""
        """The path that is being dealt with, for errors."""
        self._due = 0.0

    def handlers(self) -> Handlers:
        return {
            CompareProject: self._begin,
            PrepareProject: self._prepare,
            BringProjectPiece: self._add,
            SettleProject: self._settle,
        }

    # ---- what is asked; after a failure there is no project, and what was on its way still arrives
    def _begin(self, asked: CompareProject) -> None:
        self.close()
        self._at = "."
        self._work = self._compared(asked)

    def _prepare(self, asked: PrepareProject) -> None:
        if self._project is not None:
            self._work = self._project.prepared(asked)

    def _add(self, asked: BringProjectPiece) -> None:
        if self._project is None:
            return
        self._at = self._project.files[asked.number].path
        try:
            self._project.placing.add(self._at, asked)
        except OSError as error:
            self._fail(error)
        else:
            self._tell(ProjectPieceBrought())

    def _settle(self, _: SettleProject) -> None:
        if self._project is not None:
            self._work = self._settled(self._project)

    # ---- the work
    def _compared(self, asked: CompareProject) -> Work:
        self._project = project = ArrivingProject(asked)
        yield RECORD
        if not project.record.claim():
            self._tell(ProjectWaits(project.workdir.path))
            while not project.record.claim():
                self._due = time.monotonic() + TURN_LOOK
                yield RECORD
        compared = yield from project.compared()
        if compared.over:
            self.close()
        return compared

    def _settled(self, project: ArrivingProject) -> Work:
        settled = yield from project.settled()
        if not settled.missing:
            self.close()
        return settled

    @property
    def due(self) -> float:
        return math.inf if self._work is None else self._due

    def step(self, now: float) -> None:
        try:
            while self._work is not None and self._due <= time.monotonic() < now + SLICE:
                self._at = next(self._work)
        except StopIteration as end:
            self._work = None
            self._tell(end.value)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.close()
        if isinstance(error, UnsafeError):  # with its own place and remedy
            self._tell(ProjectFailed(error.filename, "", error.strerror or ""))
        else:
            code = errno.errorcode.get(error.errno or 0, "EIO")
            self._tell(ProjectFailed(self._at, code, error.strerror or str(error)))

    def close(self) -> None:
        """Let go of everything; what has not come in whole disappears."""
        self._work = None
        if self._project is not None:
            self._project.close()
            self._project = None


class ArrivingProject:
    """The project's files, and the directory that they arrive in."""

    def __init__(self, asked: CompareProject) -> None:
        """Open the directory. Before anything else is done, its record must be claimed.

        Raises:
            OSError: it cannot be used.
        """
        self.files = asked.files
        self.workdir = Workdir(asked.top)
        self._received = Received()
        self.record = RecordFile(self.workdir, self._received)
        self.placing = Placing(self.workdir, self._received)
        self._other_modes: list[ProjectFile] = []
        """Files that are here as they should be, but for their permissions."""
        self._inodes: dict[int, int] = {}
        """Files that are to come -> the inode that was there before."""

    def compared(self) -> Generator[str, None, ProjectCompared]:
        self.placing.sweep()
        comparison = Comparison(self.workdir, self._received, self.files)
        yield from comparison.steps()
        self._other_modes = comparison.other_modes
        sizes = (self._size_of(self.files[number].path) for number in comparison.wanted)
        return ProjectCompared(
            self.workdir.path,
            over=comparison.finds_nothing and not self._gone(),
            free=self.workdir.free(),
            freed=sum(sizes),
            rsync=has_program("rsync"),
            wanted=comparison.wanted,
            doubtful=comparison.doubtful,
            in_the_way=comparison.in_the_way,
        )

    def _size_of(self, path: str) -> int:
        found = self.workdir.look_at(path)
        return found.st_size if found else 0

    def _gone(self) -> set[str]:
        return self._received.paths() - {file.path for file in self.files}

    def prepared(self, asked: PrepareProject) -> Generator[str, None, ProjectPrepared]:
        placing = self.placing
        directories = {directory for file in self.files for directory in parents(file.path)}
        yield RECORD
        self._announce(asked.wanted, directories)
        for path in sorted(self._gone()):
            yield path
            placing.delete(path)
        for path in sorted(set(self._received.directories) - directories, reverse=True):
            yield path
            placing.delete_directory(path)
        for path in sorted(directories):
            yield path
            placing.make_directory(path)
        for file in [*(self.files[number] for number in asked.same), *self._other_modes]:
            yield file.path
            placing.adopt(file)
        for path, _, _, _, target in (self.files[number] for number in asked.wanted):
            if target is not None:
                yield path
                placing.link(path, target)
        if asked.staging:
            yield STAGING
            placing.make_directory(STAGING, 0o700)
        return ProjectPrepared(placing.deleted, placing.kept)

    def _announce(self, wanted: list[int], directories: set[str]) -> None:
        """Write down what will be put here before any of it is."""
        for number in wanted:
            file = self.files[number]
            if file.target is None:
                found = self.workdir.look_at(file.path)
                self._inodes[number] = found.st_ino if found else 0
                self._received.arriving[file.path] = [file.size, file.mtime_ns]
        new = {path for path in directories if not self.workdir.has_directory(path)}
        self._received.directories = sorted({*self._received.directories, *new})
        self.record.save()

    def settled(self) -> Generator[str, None, ProjectSettled]:
        missing = []
        for number, inode in self._inodes.items():
            file = self.files[number]
            yield file.path
            if file.path in self._received.arriving and not self._was_brought(file, inode):
                missing.append(number)
        if not missing:
            yield STAGING
            self.placing.remove_staging()
        yield RECORD
        self.record.save()
        return ProjectSettled(missing)

    def _was_brought(self, file: ProjectFile, before: int) -> bool:
        """Whether rsync has put a file in its place."""
        found = self.workdir.look_at(file.path)
        # rsync puts a file in its place by rename: the inode of before is the file that was to be replaced.
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_ino == before:
            return False
        if found.st_size != file.size or abs(found.st_mtime_ns - file.mtime_ns) >= ROUGH_CLOCK:
            return False
        self._received.has_arrived(file.path, file.size, file.mtime_ns, found.st_mtime_ns)
        return True

    def close(self) -> None:
        self.placing.abort()
        self.record.release()
        self.workdir.close()


def has_program(name: str) -> bool:
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(each, name), os.X_OK) for each in places)
