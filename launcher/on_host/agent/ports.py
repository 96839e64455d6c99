"""Binds ports and keeps them for workers, so that nobody else can take them."""

from __future__ import annotations

import errno
import re
import socket

from launcher.on_host.agent.sockets import holders_of_names, socket_for_all_addresses

TURN = "tf-launch port %d"
"""The name in the abstract socket namespace that a run takes while it binds a port with lingering connections."""
MOST_NAMED = 3
"""Ports for which an error says who has their names."""
LISTENS = rb":%04X (?:0{8}|0{32}):0000 0A \S+ \S+ \S+ +\d+ +\d+ (\d+) "
"""A line of /proc/net/tcp or tcp6 for a port: no peer, the state LISTEN, and the socket's inode."""


def hold_port(port: int) -> socket.socket:
    """Bind `port` (0: any free one) at all addresses and keep it for a worker.

    The bind is exclusive, because SO_REUSEPORT is set only afterwards: two runs can never share a port by accident, but
    the worker (TensorFlow's gRPC server with TF_GRPC_REUSE_PORT=true) can join the held one.

    Raises:
        OSError: the port is taken.
    """
    held, address = socket_for_all_addresses()
    try:
        if port:
            bind_exclusively(held, address, port)
        else:
            held.bind((address, 0))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except BaseException:
        held.close()
        raise
    return held


class TurnTakenError(OSError):
    """Another program has the name that serialises the binding of a port. It need not be a run of ours."""


def bind_exclusively(held: socket.socket, address: str, port: int) -> None:
    """Bind a port that nobody holds, even if connections of an earlier run linger there (TIME_WAIT).

    SO_REUSEADDR ignores those, but would also let two runs bind the same port at the same moment. So a run first takes
    a name for the port in the abstract socket namespace, which only one process of this network namespace can have. Any
    program may take that name, so it is only used if a plain bind has failed.

    Raises:
        TurnTakenError: the port is lingering or taken, and the name is taken.
        OSError: the port is taken.
    """
    try:
        held.bind((address, port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
    else:
        return
    with socket.socket(socket.AF_UNIX) as turn:
        try:
            turn.bind(f"\0{TURN % port}")
        except OSError as error:
            raise TurnTakenError(error.errno, error.strerror) from error
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((address, port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)


def hold_ports(names: list[str], first: int, last: int) -> dict[str, socket.socket]:
    """One port for each name, from `first` to `last` (both 0: any free port).

    Raises:
        OSError: there are not enough free ports in the range.
    """
    held: dict[str, socket.socket] = {}
    squatted = []
    candidates = iter(range(first, last + 1) if first else [0] * len(names))
    for port in candidates:
        if len(held) == len(names):
            break
        try:
            held[names[len(held)]] = hold_port(port)
        except TurnTakenError:
            squatted.append(port)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    if len(held) < len(names):
        close_sockets(held)
        found = f"{len(names)} free ports are needed in {first}-{last}, {len(held)} were found"
        raise OSError(errno.EADDRINUSE, found + squatters(squatted))
    return held


def squatters(ports: list[int]) -> str:
    """For an error: who has the names of ports that may be free: another run at this moment, or any program."""
    holders = holders_of_names([TURN % port for port in ports])
    if not ports or not holders:
        return ""
    which = ", ".join(f"{name.rpartition(' ')[2]} ({holder})" for name, holder in sorted(holders.items())[:MOST_NAMED])
    more = f" and {len(holders) - MOST_NAMED} more" if len(holders) > MOST_NAMED else ""
    return (
        f"; {len(holders)} more may be free, but another program has the names by which runs take turns at them "
        f"(`ss -xa` shows them as @{TURN % ports[0]}): {which}{more}"
    )


def listened_at(ports: list[int], but_for: set[int] | frozenset[int] = frozenset()) -> list[int]:
    """Those of `ports` at which a process of this host listens, except with the sockets (inodes) in `but_for`.

    A port that is only bound is not listened at.
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
    """Release the held ports."""
    for each in held.values():
        each.close()
