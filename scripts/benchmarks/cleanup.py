"""Nothing is left of a benchmark, however it ends."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from processes import THIS_BENCH, kill_marked


@contextmanager
def guarded_directory() -> Iterator[Path]:
    """A directory for everything that is written.

    A second process waits for this one to leave the block, or to die; then it kills what was started and still runs,
    and removes the directory. Must be entered before any thread is started.
    """
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    over, under_way = os.pipe()
    guard = os.fork()
    if guard == 0:
        os.close(under_way)
        clean_up(over, directory)
    os.close(over)
    try:
        yield directory
    finally:
        os.close(under_way)
        os.waitpid(guard, 0)


def clean_up(over: int, directory: Path) -> NoReturn:
    """Wait for the other end of the pipe to be closed."""
    os.setsid()
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    os.read(over, 1)
    kill_marked(THIS_BENCH)
    shutil.rmtree(directory, ignore_errors=True)
    os._exit(0)
