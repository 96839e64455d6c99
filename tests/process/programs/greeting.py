"""Looks like a program with TensorFlow whose server listens as TensorFlow's does, and says `worker` to whoever comes.

greeting.py        attempt 0 ends with 7 once the file `fail` is there
greeting.py late   does not listen before the file `go` is there
"""

from __future__ import annotations

import select
import socket
import sys
import time
from pathlib import Path

from library import load_library
from member import ATTEMPT, own_port, say


def shared_socket() -> socket.socket:
    """As gRPC makes it: of IPv6, for IPv4 too, but of IPv4 alone on a machine that has no ::1."""
    try:
        with socket.socket(socket.AF_INET6) as trial:
            trial.bind(("::1", 0))
    except OSError:
        return socket.socket(socket.AF_INET)
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return server


load_library()
if "late" in sys.argv:
    say("not yet")
    while not Path("go").exists():
        time.sleep(0.01)
with shared_socket() as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("", own_port()))
    server.listen()
    say(f"listening at {own_port()}")
    while True:
        if select.select([server], [], [], 0.01)[0]:
            with server.accept()[0] as guest:
                guest.send(b"worker")
        if not ATTEMPT and Path("fail").exists():
            sys.exit(7)
