"""The three jobs with files. Their modules come with the first command for them: all other runs would wait for that."""

from __future__ import annotations

import math
import time

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
    from launcher.on_host.agent.deliveries import Deliveries
    from launcher.on_host.agent.files import Files
    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.link import Link
    from launcher.on_host.agent.messages import Command
    from launcher.on_host.agent.receiving import Receiving

SHORT_BACKLOG = 1 << 19
"""Bytes waiting to be written to the launcher, above which no file is read: logs and news pass them by. So much keeps
a pipe full while the next piece is read and hashed."""
FILE_TIME = 0.01
"""Seconds given to files before everything else gets its turn."""


class ProjectJob(Job):
    """Receives the project; the first command of a transfer brings the list of its files."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._receiving: Receiving | None = None

    def handlers(self) -> Handlers:
        following = dict.fromkeys((PrepareProject, BringProjectPiece, SettleProject), self._go_on)
        return {CompareProject: self._begin, **following}

    def _begin(self, asked: CompareProject) -> None:
        from launcher.on_host.agent.receiving import Receiving

        self._receiving = Receiving(self._link.tell, asked)

    def _go_on(self, asked: Command) -> None:
        if self._receiving is not None:
            self._receiving.obey(asked)

    @property
    def due(self) -> float:
        return self._receiving.due if self._receiving is not None and self._receiving.busy else math.inf

    def step(self, now: float) -> None:  # noqa: ARG002
        if self._receiving is not None:
            self._receiving.proceed()

    def close(self) -> None:
        if self._receiving is not None:
            self._receiving.close()


class DeliveryJob(Job):
    """Takes files that the launcher brings for the next attempt."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._deliveries: Deliveries | None = None

    def handlers(self) -> Handlers:
        return dict.fromkeys((BeginDelivery, DeliverPiece, PlaceDelivery, DropDelivery), self._go_on)

    def _go_on(self, asked: Command) -> None:
        if self._deliveries is None:
            from launcher.on_host.agent.deliveries import Deliveries

            self._deliveries = Deliveries(self._link.tell)
        self._deliveries.obey(asked)

    def close(self) -> None:
        if self._deliveries is not None:
            self._deliveries.close()


class GatheringJob(Job):
    """Lists files and sends them, as long as little else waits to be sent, and not for long at a time."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._files: Files | None = None

    def handlers(self) -> Handlers:
        return dict.fromkeys((ListFiles, SendFile, FilesArrived, ForgetFiles), self._go_on)

    def _go_on(self, asked: Command) -> None:
        if self._files is None:
            from launcher.on_host.agent.files import Files

            self._files = Files(self._link.tell)
        self._files.obey(asked)

    @property
    def due(self) -> float:
        return 0.0 if self._files is not None and self._may_send(self._files) else math.inf

    def _may_send(self, files: Files) -> bool:
        return files.ready and self._link.waiting < SHORT_BACKLOG

    def step(self, now: float) -> None:
        if self._files is None:
            return
        self._link.flush()  # what the other jobs have told goes first
        while self._may_send(self._files) and time.monotonic() < now + FILE_TIME:
            self._files.step()
            self._link.flush()

    def close(self) -> None:
        if self._files is not None:
            self._files.forget()
