"""The jobs with files. Most runs need none of them, so the module of each is loaded by the first command for it."""

from __future__ import annotations

from launcher.on_host.agent.jobs import Job
from launcher.on_host.agent.messages import (
    BeginDelivery,
    BringProjectPiece,
    CompareProject,
    DeliverPiece,
    DropDelivery,
    FilesArrived,
    ForgetFiles,
    ListFiles,
    PlaceDelivery,
    PrepareProject,
    SendFile,
    SettleProject,
)

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable

    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.link import Link
    from launcher.on_host.agent.messages import Command


class LateJob(Job):
    """In the place of a job without descriptors and processes, which is made when the launcher first asks for it."""

    def __init__(self, made: Callable[[], Job], *commands: type[Command]) -> None:
        """`commands`: all that the job handles."""
        self.made = made
        self._commands = commands
        self._job = Job()
        """One that does nothing, until then."""

    def handlers(self) -> Handlers:
        return dict.fromkeys(self._commands, self._handle)

    def _handle(self, asked: Command) -> None:
        if not self._job.handlers():
            self._job = self.made()
        self._job.handlers()[type(asked)](asked)

    @property
    def due(self) -> float:
        return self._job.due

    def step(self, now: float) -> None:
        self._job.step(now)

    def close(self) -> None:
        self._job.close()


def project_job(link: Link) -> LateJob:
    """Receives the project."""

    def made() -> Job:
        from launcher.on_host.agent.receiving import Receiving

        return Receiving(link.tell)

    return LateJob(made, CompareProject, PrepareProject, BringProjectPiece, SettleProject)


def delivery_job(link: Link) -> LateJob:
    """Receives what a restart needs."""

    def made() -> Job:
        from launcher.on_host.agent.deliveries import Deliveries

        return Deliveries(link.tell)

    return LateJob(made, BeginDelivery, DeliverPiece, PlaceDelivery, DropDelivery)


def gathering_job(link: Link) -> LateJob:
    """Sends what the run has made."""

    def made() -> Job:
        from launcher.on_host.agent.files import Files

        return Files(link)

    return LateJob(made, ListFiles, SendFile, FilesArrived, ForgetFiles)
