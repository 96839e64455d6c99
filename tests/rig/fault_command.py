"""Faults by hand: the command `fault` on the login machine has the process that holds the rig break or mend a host."""

from __future__ import annotations

import shlex
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rig.host import Host
from rig.lab import RigError
from rig.rig import Rig

FAULTS = {
    "partition": "heal",
    "unplug": "plug",
    "limit_rate RATE": "lift_rate",
    "impair DELAY_MS [JITTER_MS [LOSS]]": "impair",
    "block MACHINE [PORT...]": "unblock",
    "crash": "boot",
    "freeze": "thaw",
    "fill_disk": "free_disk",
    "skew_clock SECONDS": "right_clock",
    "stop_sshd": "start_sshd",
    "kill_ssh_sessions": "",
}
"""The methods of a host that break something, and those that mend it."""
METHODS = {"clear", *(words.split()[0] for pair in FAULTS.items() for words in pair if words)}
USAGE = "\n".join(
    [
        "usage: fault HOST WHAT. What breaks a host, and what mends it:",
        *(f"  {fault:40}{mending}".rstrip() for fault, mending in FAULTS.items()),
        f"  {'any of them':40}clear",
    ]
)

COMMAND = """\
import socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    connection.sendall(" ".join(sys.argv[2:]).encode() + b"\\n")
    sys.exit(b"".join(iter(lambda: connection.recv(4096), b"")).decode() or None)
"""


@contextmanager
def commands(rig: Rig) -> Iterator[None]:
    """In the block `fault host1 impair 50 5` on the login machine is `rig.hosts[0].impair(50, 5)`."""
    path = str(rig.ssh.programs / "faults")
    hosts = {host.name: host for host in rig.hosts}

    class Request(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(answer(rig, hosts, self.rfile.readline().decode().split()).encode())

    command = rig.ssh.programs / "fault"
    # not `#!{sys.executable}`: a checkout may have a space in its path
    words = shlex.join([sys.executable, "-IS", "-c", COMMAND, path])
    command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    command.chmod(0o755)
    with socketserver.UnixStreamServer(path, Request) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield
        server.shutdown()


def answer(rig: Rig, hosts: dict[str, Host], words: list[str]) -> str:
    """What is wrong with the request, if anything."""
    if len(words) < 2 or words[0] not in hosts or words[1] not in METHODS:
        return USAGE
    host, method, *arguments = words
    machines = {**hosts, "login": rig.login}
    try:
        getattr(hosts[host], method)(*(machines.get(word) or number(word) for word in arguments))
    except (RigError, TypeError) as error:
        return f"{error}\n{USAGE}" if isinstance(error, TypeError) else str(error)
    return ""


def number(word: str) -> float | str:
    """A number where it is one."""
    try:
        return int(word) if word.isdecimal() else float(word)
    except ValueError:
        return word
