"""Eight lines of processes, each of which hops from pid to pid: it forks, and the parent ends. `storm.py stay|CODE`."""

from __future__ import annotations

import os
import signal
import sys
import time

from member import say

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        while os.fork() == 0:
            time.sleep(0.001)
        os._exit(0)
say("ready")
if sys.argv[1] != "stay":
    os._exit(int(sys.argv[1]))
while True:
    signal.pause()
