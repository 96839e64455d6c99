"""Run until stopped; at SIGINT and SIGTERM `die`, `ignore` it, or `save` for a second first.

stay.py MANNER            for every task
stay.py MANNER MANNER...  for worker 0, worker 1...
"""

from __future__ import annotations

import os
import signal
import sys
import time

from member import CONFIG, say


def note(number: int, frame: object) -> None:
    say(f"got {signal.Signals(number).name}")


def save(number: int, frame: object) -> None:
    note(number, frame)
    for each in STOPS:
        signal.signal(each, note)
    until = time.monotonic() + 1
    while time.monotonic() < until:
        time.sleep(0.01)
    say("saved")
    os._exit(0)


STOPS = (signal.SIGINT, signal.SIGTERM)
manners = sys.argv[1:]
manner = manners[CONFIG["task"]["index"] % len(manners)]
for number in STOPS:
    signal.signal(number, {"die": signal.SIG_DFL, "ignore": note, "save": save}[manner])
say("ready")
while True:
    signal.pause()
