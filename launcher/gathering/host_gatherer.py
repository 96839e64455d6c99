"""One host's files come here by a thread of their own: a slow disk or link never makes a sign of life wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from launcher.gathering.chief_directory import NoRoomError
from launcher.gathering.chief_output import ChiefOutput
from launcher.gathering.conversation import (
    BrokenOffError,
    Conversation,
    Errand,
    ErrandAskedError,
    GivenUpError,
    HostAwayError,
    sense,
)
from launcher.gathering.gathered import Gathered
from launcher.gathering.other_output import OtherOutput
from launcher.gathering.record import InUseError, in_turn
from launcher.gathering.remote_files import RefusedError
from launcher.gathering.worker_logs import WorkerLogs
from launcher.run_directory.state import RunHost


class NotOverError(Exception):
    """Gathering has not come to its end."""


class HostGatherer:
    """Looks at a host now and then while the run goes on, and brings everything once it has ended."""

    def __init__(
        self,
        host: RunHost,
        conversation: Conversation,
        logs: WorkerLogs | None,
        output: ChiefOutput | OtherOutput,
        interval: float,
        complain: Callable[[Exception], None],
        refuse: Callable[[str], None],
        ended: Callable[[HostGatherer], None],
    ) -> None:
        """Nothing is asked yet.

        Args:
            host: from which files come.
            conversation: with its agent.
            logs: of its workers; None: they go on being written.
            output: its output directory.
            interval: seconds between two looks while the run goes on; 0: there are none.
            complain: told why something could not be gathered while the run goes on.
            refuse: told why nothing is taken from this host any more: what it answers cannot be.
            ended: called, from the thread, when no more will come.
        """
        self.host = host
        self.conversation = conversation
        self.gathered = Gathered()
        """What has been brought, once all is over."""
        self.trouble: Exception | None = NotOverError("gathering broke off")
        """Why not all has been brought; None: all has."""
        self._logs = logs
        self._output = output
        self._interval = interval
        self._complain = complain
        self._refuse = refuse
        self._ended = ended
        self._finishing = threading.Event()
        self._is_over = threading.Event()
        """Nobody talks to the host any more."""
        self._thread = threading.Thread(target=self._run, name=f"files of {host.name}", daemon=True)

    def start(self) -> None:
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
            with sense():
                self._look_now_and_then()
                self._bring_all()
        except (HostAwayError, GivenUpError) as over:
            self.trouble = over
        except RefusedError as error:
            self.trouble = HostAwayError(str(error))
            self._refuse(str(error))
        finally:
            self.conversation.close()
            self._is_over.set()
            self._drop_errands()
            self._ended(self)

    def _look_now_and_then(self) -> None:
        said: type[Exception] | None = None  # each kind of trouble once, until it is over
        errand: Errand | None = None
        while errand is not None or not self._finishing.is_set():
            try:
                if errand is not None:
                    doing, errand = errand, None
                    doing.run(self.conversation)
                    continue
                self.conversation.pause(self._interval or None)
                trouble = None if self._finishing.is_set() else self._look()
            except ErrandAskedError as asked:
                errand = asked.errand
                continue
            except BrokenOffError:
                continue  # the errand had just ended
            if trouble is not None and type(trouble) is not said:
                self._complain(trouble)
            said = None if trouble is None else type(trouble)

    def _look(self) -> Exception | None:
        """Bring what is new; why not all of that has come."""
        try:
            return self._output.gather(self.conversation, final=False).trouble
        except (InUseError, NoRoomError, OSError) as trouble:
            return trouble

    def _bring_all(self) -> None:
        """The logs first: they are small, and tell what happened."""
        trouble = self._bring(self._logs.gather) if self._logs is not None else None
        final = self._logs is not None
        self.trouble = self._bring(partial(self._output.gather, final=final)) or trouble or self.gathered.trouble

    def _bring(self, gather: Callable[[Conversation], Gathered]) -> Exception | None:
        """Bring one part; why it could not be brought as a whole."""
        try:
            self.gathered.add(in_turn(partial(gather, self.conversation), self.conversation.pause))
        except (InUseError, NoRoomError, OSError) as trouble:
            return trouble
        return None
