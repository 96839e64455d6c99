"""A program with TensorFlow's looks that serves at a port, and waits.

servers.py own        at its own port
servers.py shared     at its own port, and so does a child of its own
servers.py inherited  at its own port; a child has the same socket
servers.py 12345      at that port, whichever task it is
servers.py nowhere
"""

from __future__ import annotations

import os
import socket
import sys
import threading

from library import load_library
from member import own_port, say


def serve(port: int) -> socket.socket:
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("::", port))
    server.listen()
    return server


def wait() -> None:
    say("waits")
    threading.Semaphore(0).acquire()


load_library()
how = sys.argv[1]
if how == "shared" and os.fork() == 0:
    child_server = serve(own_port())
    wait()
if how != "nowhere":
    server = serve(int(how) if how.isdigit() else own_port())
    if how == "inherited" and os.fork() == 0:
        wait()
wait()
