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

from launcher.agent.resolving import Resolving, numeric, unresolved

if False:  # names for type checkers only: typing costs start-up time
    from typing import Any

    from launcher.agent.resolving import Place

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
    """Dials many addresses at once; `results` has a word for each target: empty, or why it was not reached.

    A name may stand for several addresses. It is reached where one of them answers with the right word.
    """

    def __init__(self, targets: list[dict[str, Any]], seconds: float) -> None:
        """Begin; each target has an `id`, an `address`, a `port`, and the `word` that must come from there."""
        self.until = time.monotonic() + seconds
        self._seconds = seconds
        self._asked = {target["id"]: target for target in targets}
        self._waiting: list[tuple[Place, dict[str, Any]]] = []
        self._open: dict[int, tuple[socket.socket, Place, dict[str, Any]]] = {}
        self._failed: dict[str, list[tuple[str, str]]] = {}
        """Of each target the addresses that were not reached, and why."""
        self._left: dict[str, int] = {}
        """How many addresses of each target may still be reached."""
        self._resolving: Resolving | None = None
        self.events: dict[int, int] = {}
        self.results: dict[str, str] = {}
        self.reached: dict[str, str] = {}
        """Which address answered, of each target's address."""
        self._begin(targets)

    def _begin(self, targets: list[dict[str, Any]]) -> None:
        names = []
        for target in reversed(targets):
            place = numeric(target["address"], target["port"])
            if place is None:
                names.append(target["address"])
            else:
                self._add(target, [place])
        self._dial_more()
        if names:
            try:
                self._resolving = Resolving(names)
                self.events[self._resolving.fd] = select.POLLIN
            except OSError as error:
                self._unresolved(explained(error))

    @property
    def done(self) -> bool:
        """Every target has a result."""
        return len(self.results) == len(self._asked)

    def _add(self, target: dict[str, Any], places: list[Place]) -> None:
        self._left[target["id"]] = len(places)
        self._waiting += [(place, target) for place in reversed(places)]

    def _dial_more(self) -> None:
        while self._waiting and len(self._open) < AT_ONCE:
            place, target = self._waiting.pop()
            if target["id"] in self.results:
                continue
            try:
                self._dial(place, target)
            except OSError as error:
                self._not_reached(place, target, explained(error))

    def _dial(self, place: Place, target: dict[str, Any]) -> None:
        each = socket.socket(place[0], socket.SOCK_STREAM)
        each.setblocking(False)
        code = each.connect_ex(place[1])
        if code not in (0, errno.EINPROGRESS):
            each.close()
            raise OSError(code, os.strerror(code))
        self._open[each.fileno()] = each, place, target
        self.events[each.fileno()] = select.POLLOUT

    def proceed(self, fd: int) -> None:
        """Something happened on a connection, or a name was looked up."""
        if self._resolving is not None and fd == self._resolving.fd:
            self._take_addresses()
        elif fd in self._open:  # another address of its name may have been faster
            self._proceed(fd)
        self._dial_more()

    def _proceed(self, fd: int) -> None:
        each, place, target = self._open[fd]
        code = each.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            why = explained(OSError(code, os.strerror(code)))
        elif self.events[fd] == select.POLLOUT:
            self.events[fd] = select.POLLIN  # connected; now the word
            return
        else:
            why = heard(each, target["word"])
        self._close(fd)
        if why:
            self._not_reached(place, target, why)
        else:
            self.reached[target["address"]] = str(place[1][0])
            self._finish(target, "")

    def _take_addresses(self) -> None:
        assert self._resolving is not None
        answers = self._resolving.answers()
        if answers is None:
            self._unresolved("the look-up ended without an answer")
            return
        for name, addresses, why in answers:
            for target in [each for each in self._unanswered() if each["address"] == name]:
                places = [place for each in addresses if (place := numeric(each, target["port"]))]
                if places:
                    self._add(target, places)
                else:
                    self._finish(target, unresolved(name, why))

    def _unanswered(self) -> list[dict[str, Any]]:
        """Targets whose addresses are not known yet."""
        return [each for key, each in self._asked.items() if key not in self._left and key not in self.results]

    def _unresolved(self, why: str) -> None:
        """No further addresses come."""
        self._stop_resolving()
        for target in self._unanswered():
            self._finish(target, unresolved(target["address"], why))

    def _not_reached(self, place: Place, target: dict[str, Any], why: str) -> None:
        key = target["id"]
        failed = self._failed.setdefault(key, [])
        failed.append((str(place[1][0]), why))
        if len(failed) == self._left[key]:
            self._finish(target, why if len(failed) == 1 else "; ".join(f"{where}: {why}" for where, why in failed))

    def _finish(self, target: dict[str, Any], result: str) -> None:
        self.results[target["id"]] = result
        for fd in [fd for fd, (_, _, other) in self._open.items() if other is target]:
            self._close(fd)
        if self.done:
            self._stop_resolving()

    def _close(self, fd: int) -> None:
        self._open.pop(fd)[0].close()
        del self.events[fd]

    def _stop_resolving(self) -> None:
        if self._resolving is not None:
            del self.events[self._resolving.fd]
            self._resolving.close()
            self._resolving = None

    def give_up(self) -> None:
        """The time is over: what has not been reached is not."""
        late = f"no answer in {self._seconds:g} s"
        for fd in list(self._open):
            if fd in self._open:
                _, place, target = self._open[fd]
                self._close(fd)
                self._not_reached(place, target, late)
        self._waiting, left = [], self._waiting
        for place, target in left:
            if target["id"] not in self.results:
                self._not_reached(place, target, f"not tried within {self._seconds:g} s")
        self._unresolved(late)


def heard(each: socket.socket, word: str) -> str:
    """Nothing, if somebody says the right word there; else what is wrong."""
    try:
        said = each.recv(LONGEST_WORD)
    except OSError as error:
        return explained(error)
    return "" if said == word.encode() else "something else answers at this address"


def explained(error: OSError) -> str:
    """Why a connection did not come about."""
    return error.strerror or str(error)
