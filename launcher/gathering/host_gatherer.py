"""A thread for each host gathers its files, so that a slow disk or link never delays heartbeats."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from launcher.gathering.conversation import BrokenOffError, Conversation, Errand, GivenUpError, HostAwayError
from launcher.gathering.gathered import Gathered
from launcher.gathering.record import InUseError, in_turn
from launcher.gathering.remote_files import RefusedError
from launcher.run_directory.state import RunHost

Look = Callable[[Conversation], Gathered]
"""Bring what is new of one part of a host's files."""


class HostGatherer:
    """Looks at a host now and then while the run goes on, and brings everything once it has ended."""

    def __init__(
        self,
        host: RunHost,
        conversation: Conversation,
        look: Look,
        interval: float,
        last_looks: Sequence[Look],
        complain: Callable[[Exception], None],
        refuse: Callable[[str], None],
        ended: Callable[[], None],
    ) -> None:
        """Nothing is asked yet.

        Args:
            host: from which files come.
            conversation: with its agent.
            look: what is done while the run goes on.
            interval: seconds between two of those; 0: there are none.
            last_looks: what is done once the run has ended.
            complain: called with the reason when something could not be gathered while the run goes on.
            refuse: called with how the agent has broken the protocol; nothing more is taken from it.
            ended: called from the thread when nothing more will come.
        """
        self.host = host
        self.conversation = conversation
        self.gathered = Gathered()
        """What has been brought, once all is over."""
        self.trouble: Exception | None = RuntimeError("gathering broke off")
        """Why not all has been brought; None: all has."""
        self._look = look
        self._interval = interval
        self._last_looks = [*last_looks]
        self._errand: Errand[Any] | None = None
        """What is done next."""
        self._complain = complain
        self._complained: type[object] | None = None
        """The last trouble's type: the same trouble is not reported again before a look without it."""
        self._refuse = refuse
        self._ended = ended
        self._is_finishing = False
        self.is_over = False
        """Nobody talks to the host any more."""
        self._thread = threading.Thread(target=self._run, name=f"files of {host.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """The run has ended: bring all that is left, then end."""
        self._is_finishing = True
        self.conversation.wake()

    def do_first(self, errand: Errand[Any]) -> None:
        """Do this before anything else; a look that is under way is broken off, and goes on at that byte later."""
        self.conversation.hear(BrokenOffError(errand))
        if self.is_over:
            self._drop_errands()

    def _drop_errands(self) -> None:
        for left in self.conversation.left_unheard():
            if isinstance(left, BrokenOffError) and left.errand is not None:
                left.errand.set_exception(self.trouble or HostAwayError(""))

    def _run(self) -> None:
        try:
            while self._goes_on():
                pass
            self.trouble = self.gathered.trouble
        except (HostAwayError, GivenUpError) as over:
            self.trouble = over
        except RefusedError as error:
            self.trouble = HostAwayError(str(error))
            self._refuse(str(error))
        finally:
            self.conversation.close()
            self.is_over = True
            self._drop_errands()
            self._ended()

    def _goes_on(self) -> bool:
        """Do what is next; False: that was all."""
        try:
            if self._errand is not None:
                errand, self._errand = self._errand, None
                errand.run(self.conversation)
            elif not self._is_finishing:
                self.conversation.pause(self._interval or None)
                if not self._is_finishing:
                    self._look_once()
            elif self._last_looks:
                look = partial(self._last_looks[0], self.conversation)
                self.gathered.add(_outcome(partial(in_turn, look, self.conversation.pause)))
                del self._last_looks[0]
            else:
                return False
        except BrokenOffError as broken_off:
            self._errand = broken_off.errand
        return True

    def _look_once(self) -> None:
        trouble = _outcome(partial(self._look, self.conversation)).trouble
        if trouble is not None and type(trouble) is not self._complained:
            self._complain(trouble)
        self._complained = type(trouble)


def _outcome(look: Callable[[], Gathered]) -> Gathered:
    """What a look brings; of one that fails as a whole, why."""
    try:
        return look()
    except (InUseError, OSError) as trouble:
        return Gathered(trouble=trouble)
