"""Ctrl-C ends a worker promptly with exit code 130, also while it waits for its peers inside TensorFlow.

Python runs signal handlers only between its own instructions, and a worker can wait in a collective for ever. The
C level writes every signal to a pipe at once, though; a thread reads it, says one line and gives the
main thread a moment to leave its `with` blocks. A main thread that is quicker than this thread waits for that line.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import NoReturn

EXIT_INTERRUPTED = 130
SECONDS_TO_UNWIND = 1.0

_interrupted = threading.Event()
_said = threading.Event()


def watch_for_interrupts(say: str) -> None:
    """From now on the first SIGINT ends the process within a second or so, after printing `say` to stderr.

    Nothing changes where SIGINT is ignored, as a shell does for its background jobs. Call it in the main thread.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGINT, interrupt)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=wait_for_interrupt, args=(reader, say), name="interrupt", daemon=True).start()


def interrupt(*_: object) -> NoReturn:
    """Handle the first SIGINT in the main thread, between two of its instructions."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _interrupted.set()
    raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether a SIGINT came; if so, the line about it is out."""
    if _interrupted.is_set():
        _said.wait(SECONDS_TO_UNWIND)
    return _interrupted.is_set()


def wait_for_interrupt(reader: int, say: str) -> None:
    """Read signal numbers until one is SIGINT, then end the process."""
    while signal.SIGINT not in os.read(reader, 64):
        pass
    _interrupted.set()
    with suppress(OSError):  # whoever read our messages may have gone before us
        os.write(sys.stderr.fileno(), f"{say}\n".encode())
    _said.set()
    time.sleep(SECONDS_TO_UNWIND)
    end(EXIT_INTERRUPTED)


def leave(exit_code: int) -> NoReturn:
    """End without tearing TensorFlow's objects down, which waits for sleeping threads and for peers.

    What was registered with `atexit` still runs, so that temporary files go.
    """
    atexit._run_exitfuncs()
    end(exit_code)


def end(exit_code: int) -> NoReturn:
    """End at once."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever read our messages may have gone before us
            stream.flush()
    os._exit(exit_code)
