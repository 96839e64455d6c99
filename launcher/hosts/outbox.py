"""Data that waits to be written to a process, however slowly that reads."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque


class Outbox:
    """A queue in front of a pipe. Thread-safe; no method blocks: what the pipe does not take now stays here."""

    def __init__(self, pipe: int) -> None:
        """`pipe`: the descriptor of the writing end, which this object closes."""
        os.set_blocking(pipe, False)
        self._pipe: int | None = pipe
        self._waiting: deque[memoryview] = deque()
        self._lock = threading.RLock()  # reentrant: a signal handler may interrupt a method and call `close`

    @property
    def pipe(self) -> int | None:
        """The descriptor to poll for room; None if nothing waits."""
        with self._lock:
            return self._pipe if self._waiting else None

    def add(self, data: bytes) -> None:
        """Queue this; nothing happens once the pipe is closed."""
        with self._lock:
            if self._pipe is not None:
                self._waiting.append(memoryview(data))

    def add_once(self, data: bytes) -> None:
        """Queue this unless the whole of it is queued already."""
        with self._lock:
            if data not in self._waiting:
                self.add(data)

    def push(self) -> None:
        """Write as much as the pipe takes now. If the process is gone, drop the queue: its reader notices."""
        with self._lock:
            while self._pipe is not None and self._waiting:
                first = self._waiting[0]
                try:
                    written = os.write(self._pipe, first)
                except BlockingIOError:
                    return
                except OSError:
                    self._waiting.clear()
                    return
                if written < len(first):
                    self._waiting[0] = first[written:]
                else:
                    self._waiting.popleft()

    def close(self) -> None:
        """Close the pipe; what has not been written is dropped. A second call does nothing."""
        with self._lock:
            pipe, self._pipe = self._pipe, None
            self._waiting.clear()
            if pipe is not None:
                with contextlib.suppress(OSError):
                    os.close(pipe)
