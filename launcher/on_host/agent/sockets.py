"""Sockets like TensorFlow's, and from /proc who has which socket: where processes listen and what they connect to."""

from __future__ import annotations

import os
import socket

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterable, Iterator

LISTEN = "0A"
SYN_SENT = "02"
ESTABLISHED = "01"


class TcpSocket:
    """A line of /proc/net/tcp or tcp6."""

    def __init__(self, words: list[str]) -> None:
        self.local = words[1]
        self.remote = words[2]
        self.state = words[3]
        self.inode = words[9]

    @property
    def port(self) -> int:
        """Its own port."""
        return int(self.local.rpartition(":")[2], 16)

    @property
    def peer(self) -> str:
        """The other end: `10.0.0.2:40001`, `[2001:db8::2]:40001`."""
        address, _, port = self.remote.partition(":")
        return f"{readable(address)}:{int(port, 16)}"


def socket_for_all_addresses() -> tuple[socket.socket, str]:
    """A TCP socket for all addresses of this machine, of the family that TensorFlow would use; and what to bind it to.

    TensorFlow's server listens at IPv4 alone on a machine without ::1, even if that has other IPv6 addresses.
    """
    if not has_ipv6_loopback():
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM), "0.0.0.0"
    each = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return each, "::"


def has_ipv6_loopback() -> bool:
    """Whether a socket can be bound to ::1."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as each:
            each.bind(("::1", 0))
    except OSError:
        return False
    return True


def tcp_sockets(pid: int) -> list[TcpSocket]:
    """All TCP sockets in a process's network namespace."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{name}", encoding="ascii") as table:
                found += [TcpSocket(line.split()) for line in table.readlines()[1:]]
        except OSError:
            continue  # no IPv6 here, or the process has ended
    return found


def inodes_of(pid: int) -> set[str]:
    """The inodes of a process's open sockets."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return set()
    targets = (target_of(f"/proc/{pid}/fd/{name}") for name in names)
    return {target[len("socket:[") : -1] for target in targets if target.startswith("socket:[")}


def holders_of_names(names: list[str]) -> dict[str, str]:
    """Who has these names in the abstract socket namespace, for a message: name -> who."""
    inodes = {}
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as table:
            for line in table:
                before, _, name = line.rstrip("\n").partition(" @")
                if name in names:
                    inodes[before.split()[-1]] = name
    except OSError:
        return {}
    found = dict.fromkeys(inodes.values(), "held by a process of another user")
    for entry in os.listdir("/proc") if inodes else ():
        if entry.isdigit():
            for inode in inodes_of(int(entry)) & inodes.keys():
                found[inodes[inode]] = f"held by process {entry}, {name_of(entry)}"
    return found


def name_of(pid: str) -> str:
    """A process's name."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as name:
            return name.read().strip()
    except OSError:
        return "which has ended"


def target_of(link: str) -> str:
    """Where a link of /proc points to; empty if it is gone."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def shared_ports(pids: Iterable[int]) -> Iterator[tuple[int, list[int]]]:
    """Each port at which several of these processes listen with sockets of their own, and their pids.

    SO_REUSEPORT allows that, and the kernel gives each connection to any of them. Several sockets of one process are
    normal (TensorFlow has several), and so is a child with its parent's sockets.
    """
    pids = list(pids)
    listening: dict[str, set[str]] = {}
    for each in tcp_sockets(pids[0]) if pids else ():
        if each.state == LISTEN:
            listening.setdefault(each.local, set()).add(each.inode)
    crowded = {local: inodes for local, inodes in listening.items() if len(inodes) > 1}
    if not crowded:
        return
    owned = {pid: inodes_of(pid) for pid in pids}
    for local, inodes in crowded.items():
        seen: set[str] = set()
        sharing = []
        for pid in pids:
            own = owned[pid] & inodes
            if own - seen:
                sharing.append(pid)
            seen |= own
        if len(sharing) > 1:
            yield int(local.rpartition(":")[2], 16), sharing


def readable(address: str) -> str:
    """An address from /proc/net, where it is in words of four bytes in this machine's byte order."""
    raw = b"".join(bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8))
    if len(raw) == 4:
        return socket.inet_ntop(socket.AF_INET, raw)
    text = socket.inet_ntop(socket.AF_INET6, raw)
    return text[len("::ffff:") :] if text.startswith("::ffff:") and "." in text else f"[{text}]"
