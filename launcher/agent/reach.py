"""Proof that hosts reach each other: ports that answer with a word, and dialling those of other hosts.

Only the right word counts: at an address that two hosts have (a bridge of containers, a jump host) somebody answers,
but not the one that was meant.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time

if False:  # names for type checkers only: typing costs start-up time
    from typing import Any

AT_ONCE = 256
"""Connections that are being tried at a time: well below the usual limit of 1024 open files."""
GUESTS = 4096
"""Connections that are answered before the ports go to the workers; more than that is no proof of reach."""
LONGEST_WORD = 256
"""Bytes."""
NO_WAIT = struct.pack("ii", 1, 0)
"""SO_LINGER: a connection that is still open is reset, and leaves no TIME_WAIT on a worker's port."""


class Answering:
    """Listens at ports that are held, and greets whoever connects with a word."""

    def __init__(self, ports: list[int], word: str) -> None:
        """Listen.

        Raises:
            OSError: a port cannot be listened at.
        """
        self._word = word.encode()
        self.listeners: dict[int, socket.socket] = {}
        self._guests: list[socket.socket] = []
        try:
            for port in ports:
                each = listener(port)
                self.listeners[each.fileno()] = each
        except OSError:
            self.close()
            raise

    def answer(self, fd: int) -> None:
        """Greet everybody who waits at a listener."""
        while len(self._guests) < GUESTS:
            try:
                guest, _ = self.listeners[fd].accept()
            except OSError:
                return
            guest.setblocking(False)
            self._guests.append(guest)
            try:
                guest.send(self._word)
            except OSError:
                continue

    def close(self) -> None:
        """Leave the ports to the workers."""
        for guest in self._guests:
            guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_WAIT)
        for each in (*self._guests, *self.listeners.values()):
            each.close()
        self.listeners, self._guests = {}, []


def listener(port: int) -> socket.socket:
    """A socket that shares a held port and listens there, over IPv6 too where there is any."""
    try:
        return listening(socket.socket(socket.AF_INET6, socket.SOCK_STREAM), "::", port)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
    return listening(socket.socket(socket.AF_INET, socket.SOCK_STREAM), "0.0.0.0", port)


def listening(each: socket.socket, address: str, port: int) -> socket.socket:
    """Bind and listen; close the socket if that fails."""
    try:
        if each.family == socket.AF_INET6:
            each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        each.bind((address, port))
        each.listen(1024)
        each.setblocking(False)
    except OSError:
        each.close()
        raise
    return each


class Dialling:
    """Dials many addresses at once; `results` has a word for each target: empty, or why it was not reached."""

    def __init__(self, targets: list[dict[str, Any]], seconds: float) -> None:
        """Begin; each target has an `id`, an `address`, a `port`, and the `word` that must come from there."""
        self.until = time.monotonic() + seconds
        self._seconds = seconds
        self._waiting = list(reversed(targets))
        self.open: dict[int, tuple[socket.socket, dict[str, Any]]] = {}
        self.events: dict[int, int] = {}
        self.results: dict[str, str] = {}
        self._dial_more()

    @property
    def done(self) -> bool:
        """Every target has a result."""
        return not self.open and not self._waiting

    def _dial_more(self) -> None:
        while self._waiting and len(self.open) < AT_ONCE:
            target = self._waiting.pop()
            try:
                self._dial(target)
            except OSError as error:
                self.results[target["id"]] = explained(error)

    def _dial(self, target: dict[str, Any]) -> None:
        family, kind, _, _, place = socket.getaddrinfo(target["address"], target["port"], type=socket.SOCK_STREAM)[0]
        each = socket.socket(family, kind)
        each.setblocking(False)
        code = each.connect_ex(place)
        if code not in (0, errno.EINPROGRESS):
            each.close()
            raise OSError(code, os.strerror(code))
        self.open[each.fileno()] = each, target
        self.events[each.fileno()] = select.POLLOUT

    def proceed(self, fd: int) -> None:
        """Something happened on a connection."""
        each, target = self.open[fd]
        code = each.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._finish(fd, explained(OSError(code, os.strerror(code))))
        elif self.events[fd] == select.POLLOUT:
            self.events[fd] = select.POLLIN  # connected; now the word
        else:
            self._finish(fd, self._heard(each, target["word"]))

    def _heard(self, each: socket.socket, word: str) -> str:
        try:
            said = each.recv(LONGEST_WORD)
        except OSError as error:
            return explained(error)
        return "" if said == word.encode() else "something else answers at this address"

    def _finish(self, fd: int, result: str) -> None:
        each, target = self.open.pop(fd)
        del self.events[fd]
        each.close()
        self.results[target["id"]] = result
        self._dial_more()

    def give_up(self) -> None:
        """The time is over: what has not been reached is not."""
        self._waiting, left = [], self._waiting
        for fd in list(self.open):
            self._finish(fd, f"no answer in {self._seconds:g} s")
        self.results.update({target["id"]: f"not tried within {self._seconds:g} s" for target in left})


def explained(error: OSError) -> str:
    """Why a connection did not come about."""
    return error.strerror or str(error)
