"""Listen on the port of this task: `serve.py join` as TensorFlow's gRPC server does, `serve.py alone` without."""

from __future__ import annotations

import signal
import socket
import sys

from member import own_port, say

with socket.socket() as server:
    if sys.argv[1] == "join":
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("0.0.0.0", own_port()))
    server.listen()
    say(f"listening at {own_port()}")
    while len(sys.argv) < 3:
        signal.pause()
