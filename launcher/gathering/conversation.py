"""What is said with one agent about files: one question after the other, and many files asked for ahead."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from queue import Empty
from typing import TypeVar

from launcher.gathering.arrival import Arrival
from launcher.gathering.remote_files import NO_TIME, Listing, RefusedError, RemoteFile, is_time, readable
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
from launcher.wording import exact_size

Kind = TypeVar("Kind", bound=Event)
AHEAD = 64
"""Files asked for before the first of them has come, so that a distant host is not idle between small ones."""

MOST_UNHEARD, ANSWER_COST = 2 * window.MOST, 1600
"""Bytes that wait here for a slow disk, and what each answer counts beside its content. No agent of ours has more than
window.MOST bytes on its way."""
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What comes of answers that no agent of ours gives."""

Ask = Callable[[Command], None]
"""Ask the agent for something about files."""


class HostAwayError(Exception):
    """The agent is not there to answer; the message says why."""


class ErrandAskedError(Exception):
    """Something else comes first: whatever was under way is broken off for it."""

    def __init__(self, errand: Errand) -> None:
        super().__init__(errand)
        self.errand = errand


class BrokenOffError(Exception):
    """Nobody wants any more what an errand was to bring; the talk itself goes on."""


class GivenUpError(Exception):
    """The user does not want to wait any longer."""


class Errand:
    """Something to be done with a host, by the thread that talks to it."""

    def __init__(self, do: Callable[[Conversation], None], ended: Callable[[], None]) -> None:
        """`do`: talks to the host; `ended`: called, from some thread, once it is over."""
        self.is_over = False
        self.trouble: Exception | None = None
        """Why it could not be done."""
        self._do = do
        self._ended = ended

    def run(self, conversation: Conversation) -> None:
        """Do it.

        Raises:
            HostAwayError, GivenUpError: nobody answers any more.
            ErrandAskedError: something else comes first, and nobody waits for this one any more.
            RefusedError: what is answered cannot be.
        """
        trouble: Exception | None = None
        try:
            with sense():
                self._do(conversation)
        except Exception as error:
            trouble = error
            if isinstance(error, HostAwayError | GivenUpError | ErrandAskedError | RefusedError):
                raise
        finally:
            self.end(trouble)

    def end(self, trouble: Exception | None) -> None:
        """It is over. `trouble`: why it was not done; None: it was."""
        if not self.is_over:
            self.trouble, self.is_over = trouble, True
            self._ended()


class Conversation:
    """One thread asks, any thread may pass on what is heard."""

    def __init__(self, ask: Ask, numbers: Iterator[int]) -> None:
        """`numbers`: of the questions; no other conversation of this launcher may have the same."""
        self._ask = ask
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
        self._ask(ListFiles(number, root, list(names)))
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
        `moved` is told of those that have come, piece by piece.

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
                self._ask(ForgetFiles())

    def _asked_for(self, root: str, arrival: Arrival) -> tuple[int, Arrival]:
        number = next(self._numbers)
        path, size, _ = arrival.file
        self._ask(SendFile(number, root, path, size, arrival.offset, arrival.sha256))
        return number, arrival

    def _receive(self, number: int, arrival: Arrival, moved: Callable[[int], None]) -> None:
        while isinstance(news := self.answer(number), FilePiece):
            anew = news.offset == 0 and not arrival.received
            _check_piece(news, arrival.file, 0 if anew else arrival.offset)
            arrival.append(news.offset, news.data)
            moved(len(news.data))
        if isinstance(news, FilesFailed):
            arrival.failure = readable(news.reason)
            return
        sent = expected(news, FileSent)
        if not arrival.is_whole(sent.size, sent.sha256):
            arrival.failure = "what came of it is not what was sent"
        elif not is_time(sent.mtime_ns):
            arrival.failure = NO_TIME
        else:
            arrival.mtime_ns, arrival.unchanged = sent.mtime_ns, sent.unchanged

    def new_number(self) -> int:
        """For a question that is asked by other means; `answer` waits for its answers."""
        return next(self._numbers)

    def answer(self, number: int) -> Event:
        """The next word about what was asked last; whatever else comes is about something that nobody waits for.

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
            self._ask(FilesArrived(len(news.data)))
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


def _check_piece(news: FilePiece, file: RemoteFile, expected: int) -> None:
    """See that a piece of a file is the next one, and that the file has as much.

    Raises:
        RefusedError: it is not.
    """
    offset, size = news.offset, len(news.data)
    if offset != expected or not size:
        raise RefusedError(f"of {readable(file.path)} it sent {size} bytes from {offset} on, not those from {expected}")
    if offset + size > file.size:
        raise RefusedError(f"it sent more of {readable(file.path)} than it had listed, {exact_size(file.size)}")


@contextlib.contextmanager
def sense() -> Iterator[None]:
    """While this lasts, an answer that makes no sense is a `RefusedError`."""
    try:
        yield
    except UNREADABLE as error:
        raise RefusedError(f"its agent sent something unreadable: {error!r}") from error
