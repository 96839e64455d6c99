"""The conversation with one agent about files: one question at a time, but many files are requested ahead."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from queue import Empty
from typing import Any, TypeVar

from launcher.gathering.arrival import Arrival
from launcher.gathering.remote_files import Listing, RefusedError, readable
from launcher.on_host.agent import window
from launcher.on_host.agent.messages import (
    Command,
    Event,
    FilePiece,
    FilesArrived,
    FileSent,
    FilesFailed,
    FilesListed,
    FilesListEnded,
    ForgetFiles,
    ListFiles,
    SendFile,
)
from launcher.transfer.answer_queue import AnswerQueue

Kind = TypeVar("Kind", bound=Event)
Result = TypeVar("Result")
AHEAD = 64
"""Files asked for before the first of them has come, so that a distant host is not idle between small ones."""

MOST_UNHEARD, ANSWER_COST = 2 * window.MOST, 1600
"""Bytes that wait here for a slow disk, and what each answer counts beside its content. No agent of ours has more than
window.MOST bytes on its way."""


class HostAwayError(Exception):
    """The agent is not there to answer; the message says why."""


class GivenUpError(Exception):
    """The user does not want to wait any longer."""


class BrokenOffError(Exception):
    """Nobody waits any more for what is under way; the talk itself goes on."""

    def __init__(self, errand: Errand[Any] | None = None) -> None:
        """`errand`: what is to be done instead."""
        super().__init__(errand)
        self.errand = errand


class Errand(Future[Result]):
    """Something to be done with a host, by the thread that talks to it."""

    def __init__(self, do: Callable[[Conversation], Result]) -> None:
        super().__init__()
        self._do = do

    def run(self, conversation: Conversation) -> None:
        """Do it.

        Raises:
            HostAwayError, GivenUpError, RefusedError: there is nobody to talk to any more.
            BrokenOffError: nobody waits for it any more.
        """
        try:
            self.set_result(self._do(conversation))
        except Exception as error:
            self.set_exception(error)
            if isinstance(error, HostAwayError | GivenUpError | RefusedError | BrokenOffError):
                raise


class Conversation:
    """One thread asks, any thread may pass on what is heard."""

    def __init__(self, ask: Callable[[Command], None], numbers: Iterator[int]) -> None:
        """`ask` sends a command to the agent; `numbers` are the questions', and no other conversation has the same."""
        self.ask = ask
        self._numbers = numbers
        self._answers = AnswerQueue(_cost, MOST_UNHEARD, RefusedError("it sends more than was asked of it"))

    # ---- for other threads
    def hear(self, news: Event | Exception) -> None:
        """Pass on an answer of the agent, or the reason why none will come."""
        self._answers.put(news)

    def close(self) -> None:
        """Nobody listens to answers any more."""
        self._answers.close()

    def wake(self) -> None:
        """Let `pause` end."""
        self._answers.put(None)

    def left_unheard(self) -> list[Event | Exception | None]:
        """Take out all that has come and was not heard."""
        return list(self._answers.left())

    # ---- for the one that asks
    def pause(self, seconds: float | None) -> None:
        """Wait (None: without end) until the time is over or somebody calls `wake`.

        Raises:
            HostAwayError, GivenUpError: there is nobody to talk to any more.
        """
        until = None if seconds is None else time.monotonic() + seconds
        with contextlib.suppress(Empty):
            while self._next(until and max(0.0, until - time.monotonic())) is not None:
                pass  # an answer that nobody waits for any more

    def list(self, root: str, names: Sequence[str]) -> Listing:
        """All files below `root`/name for each of the names.

        Raises:
            HostAwayError, GivenUpError: no answer will come.
            RefusedError: it cannot be.
        """
        number = next(self._numbers)
        self.ask(ListFiles(number, root, list(names)))
        listing = Listing()
        while isinstance(news := self.answer(number), FilesListed):
            listing.add(news, names)
        listing.end(expected(news, FilesListEnded).clock_ns)
        return listing

    def fetch(
        self, root: str, arrivals: Iterable[Arrival], moved: Callable[[int], None] = lambda _: None
    ) -> Generator[Arrival]:
        """Fetch files below `root`, one after the other. Each that is yielded belongs to the caller, and is open still.

        Arrivals are begun only some files ahead of what comes. Of no file come more bytes than it was listed with.
        `moved` is called with the bytes of each piece.

        Raises:
            HostAwayError, GivenUpError: no answer will come.
            RefusedError: what comes was not asked for.
            OSError: a file cannot be written here.
        """
        rest = iter(arrivals)
        asked: deque[tuple[int, Arrival]] = deque()
        try:
            while True:
                asked += (self._asked_for(root, each) for each in itertools.islice(rest, AHEAD - len(asked)))
                if not asked:
                    return
                number, arrival = asked[0]
                self._receive(number, arrival, moved)
                del asked[0]
                yield arrival
        finally:
            for _, arrival in asked:
                arrival.close()
            if asked:
                self.ask(ForgetFiles())

    def _asked_for(self, root: str, arrival: Arrival) -> tuple[int, Arrival]:
        number = next(self._numbers)
        file = arrival.file
        self.ask(SendFile(number, root, file.path, file.size, arrival.offset, arrival.sha256))
        return number, arrival

    def _receive(self, number: int, arrival: Arrival, moved: Callable[[int], None]) -> None:
        while isinstance(news := self.answer(number), FilePiece):
            arrival.append(news)
            moved(len(news.data))
        if isinstance(news, FilesFailed):
            arrival.failure = readable(news.reason)
        else:
            arrival.end(expected(news, FileSent))

    def new_number(self) -> int:
        """For a question that is asked by other means; `answer` waits for its answers."""
        return next(self._numbers)

    def answer(self, number: int) -> Event:
        """The next answer to a question. Answers to others are dropped: nobody waits for them any more.

        Raises:
            HostAwayError, GivenUpError: no answer will come.
        """
        while True:
            news = self._next()
            if news is not None and getattr(news, "number", None) == number:
                return news

    def _next(self, timeout: float | None = None) -> Event | None:
        news = self._answers.get(timeout)
        if isinstance(news, FilePiece) and news.data:
            self.ask(FilesArrived(len(news.data)))
        return news


def _cost(news: Event) -> int:
    return ANSWER_COST + (len(news.data) if isinstance(news, FilePiece) else 0)


def expected(news: Event, kind: type[Kind]) -> Kind:
    """An answer of this kind.

    Raises:
        RefusedError: it is another one.
    """
    if not isinstance(news, kind):
        raise RefusedError(f"it answers {type(news).__name__} where {kind.__name__} was expected")
    return news
