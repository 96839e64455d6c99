"""Leave children behind that try to live on, then `stay`, or end with an exit code.

strays.py stay|CODE KIND...
"""

from __future__ import annotations

import os
import signal
import sys

from member import say

DEADLY = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


def deaf() -> None:
    for number in DEADLY:
        signal.signal(number, signal.SIG_IGN)


def daemon() -> None:
    os.setsid()
    if os.fork():
        os._exit(0)
    deaf()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def sleeper() -> None:
    os.setsid()
    os.execvp("nohup", ["nohup", "sleep", "1000"])


def stopped() -> None:
    os.setsid()
    deaf()
    READY()
    os.kill(os.getpid(), signal.SIGSTOP)


KINDS = {
    "child": lambda: None,
    "session": os.setsid,
    "group": lambda: os.setpgid(0, 0),
    "deaf": deaf,
    "daemon": daemon,
    "nohup": sleeper,
    "stopped": stopped,
}


def leave(kind: str) -> None:
    global READY
    read, write = os.pipe()
    READY = lambda: os.write(write, b"x")  # noqa: E731
    if os.fork() == 0:
        os.close(read)
        KINDS[kind]()
        READY()
        os.close(write)
        while True:
            signal.pause()
    os.close(write)
    os.read(read, 1)  # at its end, for a child that becomes another program
    os.close(read)


then, *kinds = sys.argv[1:]
for kind in kinds:
    leave(kind)
say("ready")
if then != "stay":
    os._exit(int(then))
while True:
    signal.pause()
