"""One worker fails, the others wait. `fail.py TASK HOW`, HOW being an exit code, a signal's name, or `raise`."""

from __future__ import annotations

import os
import resource
import signal
import sys

from member import TASK, say

culprit, how = sys.argv[1:]


def train() -> None:
    raise ValueError("labels out of range")


say("ready")
if culprit != TASK:
    while True:
        signal.pause()
if how == "raise":
    train()
if how.isdigit():
    say(f"giving up with {how}")
    os._exit(int(how))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
say("about to end")
os.kill(os.getpid(), signal.Signals[how])
