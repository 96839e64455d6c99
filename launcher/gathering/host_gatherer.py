"""One host's files come here by a thread of their own: a slow disk or link never makes a sign of life wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from launcher.gathering.chief_output import ChiefOutput
from launcher.gathering.conversation import (
    BrokenOffError,
    Conversation,
    Errand,
    ErrandAskedError,
    GivenUpError,
    HostAwayError,
)
from launcher.gathering.gathered import Gathered
from launcher.gathering.image import NoRoomError
from launcher.gathering.other_output import OtherOutput
from launcher.gathering.record import InUseError
from launcher.gathering.worker_logs import WorkerLogs

UNREADABLE = (ArithmeticError, LookupError, TypeError, ValueError)
"""What comes of answers that no agent of ours gives."""


class NotOverError(Exception):
    """More is to come, or would have been."""


class HostGatherer:
    """Looks at a host now and then while the run goes on, and brings everything once it has ended."""

    def __init__(
        self,
        host: str,
        conversation: Conversation,
        logs: WorkerLogs | None,
        output: ChiefOutput | OtherOutput,
        interval: float,
        complain: Callable[[Exception], None],
        ended: Callable[[HostGatherer], None],
    ) -> None:
        """Nothing is asked yet.

        Args:
            host: its name.
            conversation: with its agent.
            logs: of its workers; None: they go on being written.
            output: its output directory.
            interval: seconds between two looks while the run goes on; 0: there are none.
            complain: told why something could not be gathered while the run goes on.
            ended: called, from the thread, when no more will come.
        """
        self.conversation = conversation
        self.gathered = Gathered()
        """What has been brought, once all is over."""
        self.trouble: Exception | None = NotOverError("gathering broke off")
        """Why not all has been brought; None: all has."""
        self._logs = logs
        self._output = output
        self._interval = interval
        self._complain = complain
        self._ended = ended
        self._finishing = threading.Event()
        self._is_over = threading.Event()
        """Nobody talks to the host any more."""
        self._thread = threading.Thread(target=self._run, name=f"files of {host}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """The run has ended: bring all that is left, then end."""
        self._finishing.set()
        self.conversation.wake()

    def errand(self, errand: Errand) -> None:
        """Do this before anything else; a look that is under way is broken off, and goes on at that byte later."""
        self.conversation.hear(ErrandAskedError(errand))
        if self._is_over.is_set():
            self._drop_errands()

    def _drop_errands(self) -> None:
        for left in self.conversation.left_unheard():
            if isinstance(left, ErrandAskedError):
                left.errand.end(self.trouble)

    def _run(self) -> None:
        try:
            self._look_now_and_then()
            self._bring_all()
        except (HostAwayError, GivenUpError) as over:
            self.trouble = over
        except UNREADABLE as error:
            self.trouble = HostAwayError(f"its agent sent something unreadable: {error!r}")
        finally:
            self._is_over.set()
            self._drop_errands()
            self._ended(self)

    def _look_now_and_then(self) -> None:
        said: type[Exception] | None = None  # each kind of trouble once, until it is over
        while not self._finishing.is_set():
            try:
                self.conversation.pause(self._interval or None)
                if not self._finishing.is_set():
                    self._output.gather(self.conversation, final=False)
                said = None
            except ErrandAskedError as asked:
                asked.errand.run(self.conversation)
            except BrokenOffError:
                continue  # the errand had just ended
            except (InUseError, NoRoomError, OSError) as trouble:
                if type(trouble) is not said:
                    self._complain(trouble)
                said = type(trouble)

    def _bring_all(self) -> None:
        try:
            for part in self._parts():
                self.gathered.add(part)
            self.trouble = None
        except (InUseError, NoRoomError, OSError) as trouble:
            self.trouble = trouble

    def _parts(self) -> Iterator[Gathered]:
        """The logs first: they are small, and tell what happened."""
        if self._logs is not None:
            yield self._logs.gather(self.conversation)
        yield self._output.gather(self.conversation, final=self._logs is not None)
