"""What an agent answers, on its way from the thread that reads it to the one that has asked."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue

from launcher.on_host.agent.messages import Event


class AnswerQueue:
    """Any thread may put, one thread gets. What waits is bounded: a broken host may send without end."""

    def __init__(self, cost: Callable[[Event], int], most: int, too_much: Exception) -> None:
        """Nothing waits yet.

        Args:
            cost: what an answer counts while it waits.
            most: what all that wait may count together.
            too_much: raised by `get` after those, if there were more. No further answer is taken then.
        """
        self._cost = cost
        self._most = most
        self._too_much = too_much
        self._queue: SimpleQueue[Event | Exception | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._is_closed = False

    def put(self, news: Event | Exception | None) -> None:
        """Pass on an answer, an exception that `get` raises, or None, which only ends the waiting."""
        with self._lock:
            if isinstance(news, Event):
                if self._is_closed:
                    return
                self._waiting += self._cost(news)
                if self._waiting > self._most:
                    self._is_closed, news = True, self._too_much
            self._queue.put(news)

    def close(self) -> None:
        """No further answer is taken: nobody asks any more."""
        with self._lock:
            self._is_closed = True

    def get(self, timeout: float | None = None) -> Event | None:
        """The next answer, or None.

        Raises:
            Empty: nothing has come in so many seconds.
            Exception: one that was put.
        """
        news = self._queue.get(timeout=timeout)
        if isinstance(news, Exception):
            raise news
        if news is not None:
            with self._lock:
                self._waiting -= self._cost(news)
        return news

    def left(self) -> Iterator[Event | Exception | None]:
        """Take out all that waits."""
        with contextlib.suppress(Empty):
            while True:
                yield self._queue.get_nowait()
