"""Looks like a program with TensorFlow: a file of that name is mapped, and the main thread waits in a lock.

library.py MANNER            for every task
library.py MANNER MANNER...  for worker 0, worker 1...

At SIGINT and SIGTERM it goes on to `wait`, `save`s little by little for longer than a rest lasts, or falls `asleep` as
long; `plain` waits, too, but has nothing of TensorFlow.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import tempfile
import threading
import time

from member import CONFIG, say

LIBRARY = "libtensorflow_framework.so.2"
LONGER_THAN_A_REST = 4.0


LOADED: list[mmap.mmap] = []


def load_library() -> None:
    file = os.memfd_create(f"/{LIBRARY}")  # not on a disk, where it would stay if a signal came now
    os.ftruncate(file, mmap.PAGESIZE)
    LOADED.append(mmap.mmap(file, 0, prot=mmap.PROT_READ))
    os.close(file)


def save(*_: object) -> None:
    until = time.monotonic() + LONGER_THAN_A_REST
    with tempfile.TemporaryFile() as file:
        while time.monotonic() < until:
            file.write(os.urandom(2000))
            file.flush()
            time.sleep(0.1)
    say("saved")
    os._exit(0)


def fall_asleep(*_: object) -> None:
    time.sleep(LONGER_THAN_A_REST)
    say("slept")
    os._exit(0)


def main(*manners: str) -> None:
    manner = manners[CONFIG["task"]["index"] % len(manners)]
    if manner != "plain":
        load_library()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, {"save": save, "asleep": fall_asleep}.get(manner, lambda *_: None))
    say("ready")
    threading.Semaphore(0).acquire()


if __name__ == "__main__":
    main(*sys.argv[1:])
