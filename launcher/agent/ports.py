"""Ports that are kept for workers, so that nobody else can take them."""

from __future__ import annotations

import errno
import re

if False:  # names for type checkers only: typing costs start-up time
    import socket

LISTENS = rb":%04X (?:0{8}|0{32}):0000 0A \S+ \S+ \S+ +\d+ +\d+ (\d+) "
"""A line of /proc/net/tcp or tcp6: the port, nobody at the other end, the state LISTEN, and which socket it is."""


def hold_port(port: int) -> socket.socket:
    """Bind `port` (0: any free one) and keep it for a worker.

    The bind itself is exclusive: SO_REUSEPORT is set only afterwards, so two runs can never share a port by accident,
    while the worker (TensorFlow's gRPC server under TF_GRPC_REUSE_PORT=true) can still join the one that is held.

    Raises:
        OSError: the port is taken.
    """
    import socket

    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if port:
            bind_exclusively(held, port)
        else:
            held.bind(("0.0.0.0", 0))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except BaseException:
        held.close()
        raise
    return held


def bind_exclusively(held: socket.socket, port: int) -> None:
    """Bind a port that nobody holds, though packets of an earlier run may still be on their way to it (TIME_WAIT).

    SO_REUSEADDR passes over those, but also over another run that does the same at this moment: so each run takes its
    turn, by a name of that port in the abstract namespace of this network.
    """
    import socket

    with socket.socket(socket.AF_UNIX) as turn:
        turn.bind(f"\0tf-launch port {port}")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("0.0.0.0", port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)


def hold_ports(names: list[str], first: int, last: int) -> dict[str, socket.socket]:
    """One port for each name, from `first` to `last` (both 0: any free port).

    Raises:
        OSError: there are not enough free ports in the range.
    """
    held: dict[str, socket.socket] = {}
    candidates = iter(range(first, last + 1) if first else [0] * len(names))
    for port in candidates:
        if len(held) == len(names):
            break
        try:
            held[names[len(held)]] = hold_port(port)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    if len(held) < len(names):
        close_sockets(held)
        raise OSError(errno.EADDRINUSE, f"{len(names)} free ports are needed in {first}-{last}, {len(held)} were found")
    return held


def listened_at(ports: list[int], but_for: set[int] | frozenset[int] = frozenset()) -> list[int]:
    """Those of `ports` at which some process of this host listens, but for the sockets (inodes) that are our own.

    A port that is only held does not count.
    """
    table = b""
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}", "rb") as file:
                table += file.read()
        except OSError:
            continue  # no IPv6 here
    return [port for port in ports if any(int(inode) not in but_for for inode in re.findall(LISTENS % port, table))]


def close_sockets(held: dict[str, socket.socket]) -> None:
    """Give the held ports back."""
    for each in held.values():
        each.close()
