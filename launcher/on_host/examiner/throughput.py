"""How fast bytes go from one host to another, measured at the ports that are held for workers.

Whoever connects to such a port sends, and is told all the time how much has arrived. So the sender knows what came
through at any moment, and may stop at any moment without waiting for what still lies in queues.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys
import time

from launcher.on_host.agent.reach import NO_WAIT, explained, listener
from launcher.on_host.agent.resolving import numeric
from launcher.on_host.examiner.messages import SpeedMeasured

PIECE = 1 << 20
"""Bytes sent or taken at a time."""
TOTAL = struct.Struct(">Q")
"""What the sender is told: bytes that have arrived so far."""
CONNECTING = 1.0
"""Seconds."""
START_UP = 1 / 3
"""The part of the time in which TCP still finds out how fast it may send; it does not count."""
ROUND_TRIP, RETRANSMITTED = 68, 100
"""Where these stand in `struct tcp_info` (linux/tcp.h), four bytes each; the first in microseconds."""


class Counting:
    """Listens at held ports, and tells whoever sends how many bytes have come."""

    def __init__(self, ports: list[int]) -> None:
        """Listen.

        Raises:
            OSError: a port cannot be listened at.
        """
        self._buffer = bytearray(PIECE)
        self._listeners: dict[int, socket.socket] = {}
        self._guests: dict[int, tuple[socket.socket, int]] = {}
        try:
            for port in ports:
                each = listener(port)
                self._listeners[each.fileno()] = each
        except OSError:
            self.close()
            raise

    @property
    def fds(self) -> list[int]:
        """Where something may come."""
        return [*self._listeners, *self._guests]

    def proceed(self, fd: int) -> None:
        """Somebody connects, or sends."""
        if fd in self._listeners:
            self._accept(self._listeners[fd])
            return
        guest, total = self._guests[fd]
        try:
            count = guest.recv_into(self._buffer)
            guest.send(TOTAL.pack(total + count))
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count:
            self._guests[fd] = guest, total + count
        else:
            self._guests.pop(fd)[0].close()

    def _accept(self, each: socket.socket) -> None:
        try:
            guest, _ = each.accept()
        except OSError:
            return
        guest.setblocking(False)
        guest.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._guests[guest.fileno()] = guest, 0

    def close(self) -> None:
        """Leave the ports."""
        for each in (*self._listeners.values(), *(guest for guest, _ in self._guests.values())):
            each.close()
        self._listeners, self._guests = {}, {}


class Measuring:
    """Sends to one address as fast as it can, for so many bytes or seconds; then `result` says what arrived."""

    def __init__(self, address: str, port: int, size: int, seconds: float) -> None:
        """Begin to connect.

        Raises:
            OSError: that cannot even be tried.
        """
        self._left, self._seconds = size, seconds
        self._piece = memoryview(bytes(PIECE))
        self._heard = b""
        self._arrived: list[tuple[float, int]] = []
        """When how many bytes had arrived in all; empty: not connected yet."""
        self._size = size
        self.result: SpeedMeasured | None = None
        self.until = time.monotonic() + CONNECTING
        place = numeric(address, port)
        if place is None:
            raise OSError(errno.EADDRNOTAVAIL, f"{address} is a name that was not reached before")
        self._socket = socket.socket(place[0], socket.SOCK_STREAM)
        self._socket.setblocking(False)
        code = self._socket.connect_ex(place[1])
        if code not in (0, errno.EINPROGRESS):
            self._socket.close()
            raise OSError(code, os.strerror(code))

    @property
    def events(self) -> dict[int, int]:
        """What to wait for at which descriptor."""
        if self.result is not None:
            return {}
        return {self._socket.fileno(): select.POLLIN | (select.POLLOUT if self._left else 0)}

    def proceed(self) -> None:
        """Connect, send and hear as much as goes at once."""
        try:
            if not self._arrived:
                self._connected()
            self._hear()
            if self._left:
                self._left -= self._socket.send(self._piece[: self._left])
        except BlockingIOError:
            return
        except OSError as error:
            self._finish(explained(error))

    def _connected(self) -> None:
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        self._round_trip = self._told_by_kernel(ROUND_TRIP) / 1e6
        now = time.monotonic()
        self._arrived.append((now, 0))
        self.until = now + self._seconds

    def _told_by_kernel(self, offset: int) -> int:
        told = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return int.from_bytes(told[offset : offset + 4], sys.byteorder)

    def _hear(self) -> None:
        try:
            said = self._heard + self._socket.recv(PIECE)
        except BlockingIOError:
            return
        if len(said) == len(self._heard):
            raise OSError(errno.ECONNRESET, "the other side has closed the connection")
        whole = len(said) // TOTAL.size * TOTAL.size
        self._heard = said[whole:]
        if whole:
            (total,) = TOTAL.unpack(said[whole - TOTAL.size : whole])
            self._arrived.append((time.monotonic(), total))
            if total == self._size:
                self._finish("")

    def give_up(self) -> None:
        """The time is over; what arrived until now counts."""
        self._finish("" if len(self._arrived) > 1 else "nothing arrived in time")

    def _finish(self, reason: str) -> None:
        if reason:
            self.result = not_measured(reason)
        else:
            arrived, again = self._arrived[-1][1], self._told_by_kernel(RETRANSMITTED)
            self.result = SpeedMeasured("", arrived, steady_rate(self._arrived), self._round_trip, again)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_WAIT)  # what is still queued is not wanted
        self._socket.close()


def not_measured(reason: str) -> SpeedMeasured:
    return SpeedMeasured(reason, 0, 0.0, 0.0, 0)


def steady_rate(arrived: list[tuple[float, int]]) -> float:
    """Bytes a second, from (time, bytes in all) pairs, without the time in which TCP only gathers speed."""
    (first, _), (last, total) = arrived[0], arrived[-1]
    warm = first + (last - first) * START_UP
    since, before = next((time, count) for time, count in arrived if time >= warm)
    if since == last:
        since, before = arrived[0]
    return (total - before) / max(last - since, 1e-9)
