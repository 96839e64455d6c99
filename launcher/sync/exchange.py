"""One host's share of sending the project: what its agent is asked, one question after the other, and what follows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from launcher.errors import HostError
from launcher.on_host.agent.messages import (
    BringProjectPiece,
    Command,
    CompareProject,
    Event,
    PrepareProject,
    ProjectCompared,
    ProjectFailed,
    ProjectPieceBrought,
    ProjectPrepared,
    ProjectSettled,
    ProjectWaits,
    SettleProject,
)
from launcher.on_host.agent.window import MOST
from launcher.sync.complaints import failed, in_the_way, left_there, no_room, not_received, waiting
from launcher.sync.project import Project
from launcher.sync.rsync import Rsync
from launcher.transfer.answer_queue import AnswerQueue
from launcher.transfer.outgoing import FRAME_COST, Outgoing
from launcher.transfer.under_way import UnderWay
from launcher.wording import amount

WORTH_RSYNC = 8 << 20
"""Bytes from which rsync is used: it needs a connection of its own, in whose time this much is sent without it."""

MOST_UNHEARD = 2 * MOST // FRAME_COST
"""Answers about pieces that wait while nobody listens. An agent of ours has one for each frame on its way."""
LONG_ANSWER = MOST_UNHEARD // 100
"""What any other answer counts: it may list all files, and there are half a dozen of them."""

Kind = TypeVar("Kind", bound=Event)


class StoppedError(Exception):
    """Nobody waits any more for the project to be there."""


class Exchange:
    """Done by a thread of its own; any thread may pass on what the agent answers."""

    def __init__(
        self,
        host: str,
        top: str,
        project: Project,
        ask: Callable[[Command], None],
        say: Callable[[str], None],
        rsync: Rsync | None,
    ) -> None:
        """Nothing is asked yet.

        Args:
            host: its name.
            top: the directory on the host.
            project: what is to be there.
            ask: tells the agent what to do.
            say: shows the user a line.
            rsync: None if this machine has none.
        """
        self._host = host
        self._top = top
        self._project = project
        self._ask = ask
        self._say = say
        self._rsync = rsync
        self._answers = AnswerQueue(_cost, MOST_UNHEARD, HostError(f"{host}: it sends more than was asked of it"))
        self._sent = 0

    # ---- for other threads
    def hear(self, answer: Event) -> None:
        """Pass on what the agent answers."""
        self._answers.put(answer)

    def stop(self) -> None:
        self._answers.put(StoppedError())
        if self._rsync is not None:
            self._rsync.end()

    # ---- for its own
    def bring(self) -> None:
        """Return once the host has the project.

        Raises:
            HostError: the host cannot take it.
            UsageError: a file of the project cannot be read.
            StoppedError: it was stopped.
        """
        compared = self._asked(CompareProject(self._top, list(self._project.files)), ProjectCompared)
        self._top = compared.top
        if compared.over:
            return
        wanted, same = self._decide(compared)
        coming = [number for number in wanted if self._project.files[number].target is None]
        size = self._size(coming)
        if size > compared.free + compared.freed:
            raise HostError(no_room(self._host, self._top, size, compared.free + compared.freed))
        rsync = self._rsync if size >= WORTH_RSYNC and compared.rsync else None
        prepared = self._asked(PrepareProject(wanted, same, rsync is not None), ProjectPrepared)
        self._bring_files(coming, rsync)
        self._tell(len(wanted), prepared)

    def _decide(self, found: ProjectCompared) -> tuple[list[int], list[int]]:
        """What is to be sent, and what has the right contents already."""
        wanted, same, objections = list(found.wanted), [], list(found.in_the_way)
        self._check_known([*wanted, *(each.number for each in found.doubtful)])
        for each in found.doubtful:
            file = self._project.files[each.number]
            if self._project.digest(file) == each.sha256:
                same.append(each.number)
            elif each.objection:
                objections.append((file.path, each.objection))
            else:
                wanted.append(each.number)
        if objections:
            raise HostError(in_the_way(self._host, self._top, sorted(objections)))
        return sorted(wanted), same

    def _check_known(self, numbers: Sequence[int]) -> None:
        if any(number >= len(self._project.files) for number in numbers):
            raise HostError(f"{self._host}: it sent something unreadable: it asks for files that the project has not")

    def _bring_files(self, coming: Sequence[int], rsync: Rsync | None) -> None:
        """By rsync if there is one; what that leaves over goes over the agent's own connection."""
        if rsync is not None:
            self._send_by(rsync, coming)
            coming = self._missing()
        if coming or rsync is None:
            self._send(coming)
            coming = self._missing()
        if coming:
            raise HostError(not_received(self._host, self._top, self._project.files[coming[0]].path))

    def _missing(self) -> list[int]:
        """What has not come."""
        missing = self._asked(SettleProject(), ProjectSettled).missing
        self._check_known(missing)
        return missing

    def _send(self, numbers: Sequence[int]) -> None:
        moved = self._under_way(numbers)
        outgoing = Outgoing(self._ask, lambda: self._answer(ProjectPieceBrought))
        for number in numbers:
            for piece in self._pieces(number):
                outgoing.send(piece, len(piece.data))
                self._sent += len(piece.data)
                moved(len(piece.data))
        outgoing.drain()

    def _pieces(self, number: int) -> Iterator[BringProjectPiece]:
        at, digest = 0, hashlib.sha256()
        with self._project.opened(self._project.files[number]) as (found, pieces):
            stamp = found.st_size, found.st_mtime_ns, found.st_mode & 0o777
            for data in pieces:
                digest.update(data)
                yield BringProjectPiece(number, at, *stamp, digest.hexdigest(), data)
                at += len(data)

    def _send_by(self, rsync: Rsync, numbers: Sequence[int]) -> None:
        moved = self._under_way(numbers)

        def follow(sent: int) -> None:
            moved(sent - self._sent)
            self._sent = sent

        reason = rsync.send(self._top, [self._project.files[number] for number in numbers], follow)
        if reason:
            self._say(f"{self._host}: rsync failed ({reason}); sending what is missing without it")

    def _asked(self, command: Command, kind: type[Kind]) -> Kind:
        self._ask(command)
        return self._answer(kind)

    def _answer(self, kind: type[Kind]) -> Kind:
        while True:
            match self._answers.get():
                case ProjectFailed(path, code, reason):
                    raise HostError(failed(self._host, self._top, path, code, reason))
                case ProjectWaits(path):
                    self._say(waiting(self._host, path))
                case answer if isinstance(answer, kind):
                    return answer

    # ---- what the user is told
    def _under_way(self, numbers: Sequence[int]) -> Callable[[int], None]:
        return UnderWay(f"{self._host}: sending the project", self._size(numbers), self._say).moved

    def _size(self, numbers: Sequence[int]) -> int:
        return sum(self._project.files[number].size for number in numbers)

    def _tell(self, count: int, prepared: ProjectPrepared) -> None:
        deleted, kept = prepared.deleted, prepared.kept
        words = [f"{count} of {len(self._project.files)} files", amount(self._sent)]
        words += [f"{deleted} deleted"] if deleted else []
        if count or deleted:
            self._say(f"{self._host}: project synced, {', '.join(words)}")
        if kept:
            self._say(left_there(self._host, kept))


def _cost(answer: Event) -> int:
    return 1 if isinstance(answer, ProjectPieceBrought) else LONG_ANSWER
