"""One host's share of sending the project: what its agent is asked, and what its answers lead to, step after step."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from launcher.errors import HostError
from launcher.on_host.agent.messages import (
    BringProjectPiece,
    Command,
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
from launcher.on_host.agent.window import CAREFUL, SendWindow
from launcher.sync.complaints import failed, in_the_way, left_there, no_room, not_received, waiting
from launcher.sync.project import Project, ProjectFile
from launcher.wording import amount

PIECE = 1 << 17
"""Bytes of a file in one frame."""
FRAME_COST = 512
"""Bytes that a frame counts beside its content, so that many empty files are held back, too."""
WORTH_RSYNC = 8 << 20
"""Bytes from which rsync is used: it needs a connection of its own, in whose time this much is sent without it."""
REPORT = 5.0
"""Seconds between two lines about a transfer that takes its time."""

Result = TypeVar("Result")
Awaited = TypeVar("Awaited")
Steps = Generator[bool, None, Result]
"""Yields whether there is more to do at once; if not, it waits for an answer."""


class Couriered(NamedTuple):
    """How far rsync has come."""

    bytes: int
    reason: str | None = None
    """It has ended: nothing if all went well, else why not."""


class Courier(Protocol):
    """What brings files past the agent's own connection: rsync."""

    def start(self, top: str, files: Sequence[ProjectFile]) -> None:
        """Begin. Answers: `Couriered`, the last with a reason."""

    def end(self) -> None:
        """Stop it if it still runs."""


@dataclass(slots=True)
class Exchange:
    """One host's share, as far as it has come."""

    host: str
    top: str
    """The directory on the host."""
    project: Project
    ask: Callable[[Command], None]
    say: Callable[[str], None]
    courier: Courier | None
    """None: this machine has none."""
    busy: bool = field(default=True, init=False)
    """There is more to do at once: call `proceed`."""
    over: bool = field(default=False, init=False)
    _window: SendWindow = field(default_factory=lambda: SendWindow(CAREFUL), init=False)
    _sent: int = field(default=0, init=False)
    _report_at: float = field(default=0.0, init=False)
    _answers: deque[object] = field(default_factory=deque, init=False)
    _steps: Steps[None] = field(init=False)

    def __post_init__(self) -> None:
        self._steps = self._all_steps()

    def proceed(self, answer: object = None) -> None:
        """Go on as far as goes without waiting.

        Raises:
            HostError: the host cannot take the project.
            UsageError: a file of the project cannot be read.
        """
        if answer is not None:
            self._answers.append(answer)
        if self.over:
            return
        try:
            self.busy = next(self._steps)
        except StopIteration:
            self.busy, self.over = False, True

    def close(self) -> None:
        """Let go of files and processes on this machine."""
        self._steps.close()
        if self.courier is not None:
            self.courier.end()

    # ---- the steps
    def _all_steps(self) -> Steps[None]:
        self.ask(CompareProject(self.top, [(*file,) for file in self.project.files]))
        compared = yield from self._answer(ProjectCompared)
        self.top = compared.top
        if compared.over:
            return
        wanted, same = yield from self._decide(compared)
        coming = [number for number in wanted if self.project.files[number].target is None]
        size = self._size(coming)
        self._check_room(size, compared)
        courier = self.courier if size >= WORTH_RSYNC and compared.rsync else None
        self.ask(PrepareProject(wanted, same, courier is not None))
        prepared = yield from self._answer(ProjectPrepared)
        if courier is None:
            yield from self._send(coming)
        else:
            yield from self._send_by(courier, coming)
        missing = yield from self._settle()
        if missing:
            yield from self._send(missing)
            missing = yield from self._settle()
        if missing:
            raise HostError(not_received(self.host, self.top, self.project.files[missing[0]].path))
        self._tell(len(wanted), prepared)

    def _decide(self, found: ProjectCompared) -> Steps[tuple[list[int], list[int]]]:
        """What is to be sent, and what has the right contents already."""
        wanted, same, objections = list(found.wanted), [], list(found.in_the_way)
        self._check_known([*wanted, *(number for number, _, _ in found.doubtful)])
        for number, digest, objection in found.doubtful:
            file = self.project.files[number]
            own = yield from self.project.digest(file)
            if own == digest:
                same.append(number)
            elif objection:
                objections.append((file.path, objection))
            else:
                wanted.append(number)
        if objections:
            raise HostError(in_the_way(self.host, self.top, sorted(objections)))
        return sorted(wanted), same

    def _check_known(self, numbers: Sequence[int]) -> None:
        if any(number >= len(self.project.files) for number in numbers):
            raise HostError(f"{self.host}: it sent something unreadable: it asks for files that the project has not")

    def _check_room(self, size: int, there: ProjectCompared) -> None:
        if size > there.free + there.freed:
            raise HostError(no_room(self.host, self.top, size, there.free + there.freed))

    def _send(self, numbers: Sequence[int]) -> Steps[None]:
        """Over the agent's own connection."""
        total = self._sent + self._size(numbers)
        for number in numbers:
            file = self.project.files[number]
            with self.project.opened(file) as (descriptor, stamp):
                yield from self._send_file(number, descriptor, stamp, total)
        while not self._window.is_empty:
            yield from self._answer(ProjectPieceBrought)

    def _send_file(self, number: int, descriptor: int, stamp: os.stat_result, total: int) -> Steps[None]:
        """As it is now: it may have changed since the project was read."""
        what = stamp.st_size, stamp.st_mtime_ns, stamp.st_mode & 0o777
        at = 0
        while at < stamp.st_size or at == 0:
            while not self._window.is_open:
                yield from self._answer(ProjectPieceBrought)
            piece = self.project.read(self.project.files[number], descriptor, min(PIECE, stamp.st_size - at))
            self.ask(BringProjectPiece(number, at, *what, piece))
            self._window.sent(len(piece) + FRAME_COST, time.monotonic())
            self._sent += len(piece)
            self._report(total)
            at += len(piece) or 1
            yield True

    def _send_by(self, courier: Courier, numbers: Sequence[int]) -> Steps[None]:
        total = self._size(numbers)
        courier.start(self.top, [self.project.files[number] for number in numbers])
        while (state := (yield from self._answer(Couriered))).reason is None:
            self._sent = state.bytes
            self._report(total)
        if state.reason:
            self.say(f"{self.host}: rsync failed ({state.reason}); sending what is missing without it")

    def _settle(self) -> Steps[list[int]]:
        self.ask(SettleProject())
        settled = yield from self._answer(ProjectSettled)
        self._check_known(settled.missing)
        return settled.missing

    def _answer(self, kind: type[Awaited]) -> Steps[Awaited]:
        while True:
            while not self._answers:
                yield False
            answer = self._answers.popleft()
            if isinstance(answer, ProjectFailed):
                raise HostError(failed(self.host, self.top, answer.path, answer.code, answer.reason))
            if isinstance(answer, ProjectPieceBrought) and not self._window.is_empty:
                self._window.oldest_arrived(time.monotonic())
            if isinstance(answer, ProjectWaits):
                self.say(waiting(self.host, answer.path))
            if isinstance(answer, kind):
                return answer

    # ---- what the user is told
    def _report(self, total: int) -> None:
        now = time.monotonic()
        if not self._report_at or self._sent >= total:
            self._report_at = self._report_at or now + REPORT
        elif now >= self._report_at:
            self._report_at = now + REPORT
            self.say(f"{self.host}: sending the project, {amount(self._sent)} of {amount(total)}")

    def _tell(self, count: int, prepared: ProjectPrepared) -> None:
        deleted, kept = prepared.deleted, prepared.kept
        words = [f"{count} of {len(self.project.files)} files", amount(self._sent)]
        words += [f"{deleted} deleted"] if deleted else []
        if count or deleted:
            self.say(f"{self.host}: project synced, {', '.join(words)}")
        if kept:
            self.say(left_there(self.host, kept))

    def _size(self, numbers: Sequence[int]) -> int:
        return sum(self.project.files[number].size for number in numbers)
