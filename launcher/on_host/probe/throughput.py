"""How fast bytes go from one host to another, measured at the ports that are held for workers.

The receiver keeps telling the sender how much has arrived. So the sender knows at any moment what came through, and may
stop without waiting for what is still queued.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import sys
import threading
import time

from launcher.on_host.agent.reach import NO_WAIT, listener
from launcher.on_host.probe.answers import Speed

PIECE = 1 << 20
"""Bytes that are sent or received at a time."""
TOTAL = struct.Struct(">Q")
"""What the sender is told: bytes that have arrived so far."""
CONNECTING = 1.0
"""Seconds."""
START_UP = 1 / 3
"""The part of the time in which TCP still finds out how fast it can send. It does not count."""
ROUND_TRIP, RETRANSMITTED = 68, 100
"""Where these stand in `struct tcp_info` (linux/tcp.h), four bytes each; the first in microseconds."""


def counting(*ports: int) -> bool:
    """Listen at these ports, and tell each sender how many bytes have arrived."""
    for port in ports:
        threading.Thread(target=_welcome, args=(listener(port),), daemon=True).start()
    return True


def _welcome(listening: socket.socket) -> None:
    listening.setblocking(True)
    while True:
        guest, _ = listening.accept()
        threading.Thread(target=_count, args=(guest,), daemon=True).start()


def _count(guest: socket.socket) -> None:
    buffer, total = bytearray(PIECE), 0
    with guest, contextlib.suppress(OSError):
        guest.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while came := guest.recv_into(buffer):
            total += came
            guest.sendall(TOTAL.pack(total))


def measured(address: str, port: int, size: int, seconds: float) -> Speed:
    """Send so many bytes, for so many seconds at most, and see how fast they arrive."""
    try:
        with socket.create_connection((address, port), CONNECTING) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_WAIT)  # what is still queued is not wanted
            round_trip = _told_by_kernel(link, ROUND_TRIP) / 1e6
            rate = steady_rate(_sent(link, size, seconds))
            return Speed(rate, round_trip, _told_by_kernel(link, RETRANSMITTED))
    except OSError as error:
        return Speed(reason=error.strerror or "nothing arrived in time")


def _told_by_kernel(link: socket.socket, offset: int) -> int:
    told = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int.from_bytes(told[offset : offset + 4], sys.byteorder)


def _sent(link: socket.socket, size: int, seconds: float) -> list[tuple[float, int]]:
    """Send, and note at which moments how many bytes had arrived in all."""
    link.setblocking(False)
    piece, left, heard = memoryview(bytes(PIECE)), size, b""
    arrived = [(time.monotonic(), 0)]
    until = arrived[0][0] + seconds
    while arrived[-1][1] < size and (patience := until - time.monotonic()) > 0:
        readable, writable, _ = select.select([link], [link] if left else [], [], patience)
        if writable:
            left -= link.send(piece[:left])
        if readable:
            data = link.recv(PIECE)
            if not data:
                raise OSError(errno.ECONNRESET, "the other side has closed the connection")
            heard += data
            whole = len(heard) // TOTAL.size * TOTAL.size
            if whole:
                arrived.append((time.monotonic(), *TOTAL.unpack_from(heard, whole - TOTAL.size)))
            heard = heard[whole:]
    if len(arrived) == 1:
        raise TimeoutError
    return arrived


def steady_rate(arrived: list[tuple[float, int]]) -> float:
    """Bytes a second, from (time, bytes in all) pairs, without the time in which TCP only gathers speed."""
    (first, _), (last, total) = arrived[0], arrived[-1]
    warm = first + (last - first) * START_UP
    since, before = next((time, count) for time, count in arrived if time >= warm)
    if since == last:
        since, before = arrived[0]
    return (total - before) / max(last - since, 1e-9)
