"""An open file and the only thread that writes to it, so that a slow or stopped reader blocks nothing else."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

WriterJob = Callable[[], object]


def no_alarm() -> float | None:
    """Nothing is due, now or later."""
    return None


class Writer:
    """Runs jobs in its own thread, one after the other."""

    def __init__(
        self, fd: int, on_broken: Callable[[OSError], None], alarm: Callable[[], float | None] = no_alarm
    ) -> None:
        """Start the thread.

        Args:
            fd: the open file.
            on_broken: called once, in the thread, when the file can no longer be written.
            alarm: called in the thread after each job: does what is due, and returns the seconds after which to call it
                again (None: after the next job).
        """
        self._fd = fd
        self._on_broken = on_broken
        self._alarm = alarm
        self._broken = False
        self._jobs: SimpleQueue[WriterJob | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"console-{fd}", daemon=True)
        self._thread.start()

    def submit(self, job: WriterJob) -> None:
        """Queue a job for the thread."""
        self._jobs.put(job)

    def wait_until_done(self, deadline: float | None) -> bool:
        """Wait until all jobs so far are done, or until `deadline` (`time.monotonic`); return whether they are done."""
        done = threading.Event()
        self.submit(done.set)
        return done.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def finish(self) -> None:
        """End the thread once all jobs are done."""
        self._jobs.put(None)
        self._thread.join()

    def write(self, text: bytes) -> None:
        """Write all of it, however long that takes. Only jobs call this. Once the file is broken, it does nothing."""
        rest = memoryview(text)
        while rest and not self._broken:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                # Another process that shares this file has made it non-blocking.
                select.select([], [self._fd], [])
            except OSError as error:
                self._broken = True
                self._on_broken(error)

    def _run(self) -> None:
        wait: float | None = None
        while True:
            try:
                job = self._jobs.get(timeout=wait)
            except Empty:
                job = no_alarm
            if job is None:
                return
            job()
            wait = self._alarm()
