"""Looks like a program with parameter servers: all tasks listen, the chief ends well once a file is there.

coordinated.py FILE            workers and parameter server serve until they are ended
coordinated.py FILE no-server  worker 1 fails before it listens
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path

from library import load_library
from member import CONFIG, own_port, say

kind, index = CONFIG["task"]["type"], CONFIG["task"]["index"]
if "no-server" in sys.argv and (kind, index) == ("worker", 1):
    raise RuntimeError("cannot read my settings")
load_library()
with socket.socket() as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("0.0.0.0", own_port()))
    server.listen()
    say(f"{kind} {index} serves at {own_port()}")
    if kind != "chief":
        threading.Semaphore(0).acquire()
    while not Path(sys.argv[1]).exists():
        time.sleep(0.01)
