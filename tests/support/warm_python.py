"""What a launcher starts as a worker where the test wants it to begin with TensorFlow imported.

`python warm_python.py SOCKET ARGUMENTS` has a process with TensorFlow fork one that does what `python ARGUMENTS` would
in this environment and directory, with these streams. Signals are passed on to it, and it ends as this process does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def order(place: str, argv: list[str], env: dict[str, str], cwd: str, streams: list[int]) -> tuple[socket.socket, int]:
    """Have a process begin; its pid comes through the connection, and later its exit code. Closing it kills."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(place)
    socket.send_fds(connection, [json.dumps({"argv": argv, "env": env, "cwd": cwd}).encode()], streams)
    return connection, int(connection.recv(100))


def main(place: str, *argv: str) -> None:
    """Stand in for a process until it ends, and end like it."""
    connection, pid = order(place, list(argv), dict(os.environ), os.getcwd(), [0, 1, 2])  # noqa: PTH109 - starts sooner
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = int(connection.recv(100))
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
