"""What waits to be written to a process that reads when it likes."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque


class Outbox:
    """Thread-safe, and no method waits for the reader: what its pipe does not take now stays here."""

    def __init__(self, pipe: int) -> None:
        """`pipe`: the descriptor of an end that is written to; it belongs to this object from now on."""
        os.set_blocking(pipe, False)
        self._pipe: int | None = pipe
        self._waiting: deque[memoryview] = deque()
        self._lock = threading.RLock()  # a signal handler may close what it has interrupted

    @property
    def pipe(self) -> int | None:
        """The descriptor to poll for room, while something waits for it."""
        with self._lock:
            return self._pipe if self._waiting else None

    def add(self, data: bytes) -> None:
        """Let this wait behind all else. Once the pipe is closed, nothing is taken any more."""
        with self._lock:
            if self._pipe is not None:
                self._waiting.append(memoryview(data))

    def add_once(self, data: bytes) -> None:
        """The same, unless all of it waits already."""
        with self._lock:
            if data not in self._waiting:
                self.add(data)

    def push(self) -> None:
        """Write as much as the pipe takes now. Who reads from a process that has gone sees its end."""
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
        """The reader sees the end of the stream; what has not been written is dropped. Once more does nothing."""
        with self._lock:
            pipe, self._pipe = self._pipe, None
            self._waiting.clear()
            if pipe is not None:
                with contextlib.suppress(OSError):
                    os.close(pipe)
