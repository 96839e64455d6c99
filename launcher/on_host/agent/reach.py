"""Proof that hosts reach each other: ports that answer, and dialling those of other hosts.

Both sides prove that they know a word, which does not go over the network. Who answers is the host that was meant: at
an address that two hosts have (a bridge of containers, a jump host) somebody answers, too. Who dials is a host of the
run: so the address that it comes from, in the eyes of the one that answers, is known to be one of the run's.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time

from launcher.on_host.agent.gate_program import plain_address
from launcher.on_host.agent.limits import in_words
from launcher.on_host.agent.resolving import Resolving, numeric, unresolved
from launcher.on_host.agent.sockets import socket_for_all_addresses

if False:  # names for type checkers only: typing costs start-up time
    from launcher.on_host.agent.messages import DialPorts, Target
    from launcher.on_host.agent.resolving import Place

AT_ONCE = 256
"""Connections that are being tried at a time: well below the usual limit of 1024 open files."""
GUESTS = 4096
"""Connections that are answered at a time; who has waited longest makes room for another."""
AT_A_TIME = 64
"""Connections that are taken before everything else gets its turn."""
CHALLENGE = 32
"""Bytes that whoever answers sends first, never twice the same."""
LONGEST_PROOF = 256
"""Bytes."""
ANSWERS, DIALS = b"answers", b"dials"
"""What the two sides prove differs, so that none can show the other's proof."""
A_MOMENT = 0.25
"""Seconds for further addresses of a name, once each target has been reached at one."""
SOMETHING_ELSE = "something else answers at this address"
NO_WAIT = struct.pack("ii", 1, 0)
"""SO_LINGER: a connection that is still open is reset, and leaves no TIME_WAIT on a worker's port."""


class Answering:
    """Listens at ports that are held, and tells whoever knows the word that he has reached the right host."""

    def __init__(self, ports: list[int], word: str) -> None:
        """Listen.

        Raises:
            OSError: a port cannot be listened at.
        """
        self._word = word.encode()
        self.listeners: dict[int, socket.socket] = {}
        self._guests: dict[int, tuple[socket.socket, str, bytes]] = {}
        """Each with its address and its challenge, empty once that has been met."""
        self.seen: set[str] = set()
        """The addresses that those who knew the word came from."""
        try:
            for port in ports:
                each = listener(port)
                self.listeners[each.fileno()] = each
        except OSError:
            self.close()
            raise

    @property
    def fds(self) -> list[int]:
        """What is waited for."""
        return [*self.listeners, *self._guests]

    def on_ready(self, fd: int) -> None:
        """Somebody comes, or says something."""
        if fd in self.listeners:
            self._welcome(self.listeners[fd])
        elif fd in self._guests:
            self._hear(fd)

    def _welcome(self, listening: socket.socket) -> None:
        for _ in range(AT_A_TIME):
            try:
                guest, place = listening.accept()
            except OSError as error:
                if error.errno == errno.EMFILE:
                    self._dismiss_oldest()
                return
            if len(self._guests) == GUESTS:
                self._dismiss_oldest()
            guest.setblocking(False)
            challenge = os.urandom(CHALLENGE // 2).hex().encode()
            self._guests[guest.fileno()] = guest, plain_address(place[0]), challenge
            self._say(guest, challenge)

    def _hear(self, fd: int) -> None:
        guest, address, challenge = self._guests[fd]
        try:
            said = guest.recv(LONGEST_PROOF)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if challenge and is_proof(said, self._word, DIALS, challenge):
            self.seen.add(address)
            self._guests[fd] = guest, address, b""  # who dials closes first, so that no TIME_WAIT is left here
            self._say(guest, proof(self._word, ANSWERS, challenge))
        else:
            self._dismiss(fd)

    def _say(self, guest: socket.socket, words: bytes) -> None:
        try:
            guest.send(words)
        except OSError:
            self._dismiss(guest.fileno())

    def _dismiss_oldest(self) -> None:
        for fd in list(self._guests)[:1]:
            self._dismiss(fd)

    def _dismiss(self, fd: int) -> None:
        reset(self._guests.pop(fd)[0])

    def close(self) -> None:
        """Leave the ports to the workers."""
        for fd in list(self._guests):
            self._dismiss(fd)
        for each in self.listeners.values():
            each.close()
        self.listeners = {}


def proof(word: bytes, side: bytes, challenge: bytes) -> bytes:
    """What only those can say who know the word."""
    import hmac  # only runs on several hosts need it

    return hmac.new(word, side + b" " + challenge, "sha256").hexdigest().encode()


def is_proof(said: bytes, word: bytes, side: bytes, challenge: bytes) -> bool:
    """Whether it has been said; how long this takes tells nothing."""
    import hmac

    return hmac.compare_digest(said, proof(word, side, challenge))


def reset(guest: socket.socket) -> None:
    """End a connection at once, and leave nothing of it at the port."""
    try:
        guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_WAIT)
    finally:
        guest.close()


def listener(port: int) -> socket.socket:
    """A socket that shares a held port (0: any free one) and listens there, over IPv6 too where TensorFlow's would."""
    each, address = socket_for_all_addresses()
    try:
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

    A name may stand for several addresses. It is reached where one of them answers as it should. The others get a
    moment more: TensorFlow may take any of them, and whoever answers has to have seen where we come from on each way.
    """

    def __init__(self, asked: DialPorts) -> None:
        """Begin. Names that were looked up are then dialled for as long as addresses are."""
        self.until = time.monotonic() + asked.seconds
        self._seconds, self._look_up = asked.seconds, asked.look_up
        self._asked = {target.id: target for target in asked.targets}
        self._waiting: list[tuple[Place, Target]] = []
        self._open: dict[int, tuple[socket.socket, Place, Target]] = {}
        self._challenges: dict[int, bytes] = {}
        self._tried: dict[str, dict[str, str]] = {}
        """Of each target the addresses that have a result: empty, or why they were not reached."""
        self._known: dict[str, int] = {}
        """How many addresses each target has."""
        self._resolving: Resolving | None = None
        self.polled: dict[int, int] = {}
        self.results: dict[str, str] = {}
        self._begin(asked.targets)

    def _begin(self, targets: list[Target]) -> None:
        names = []
        for target in reversed(targets):
            place = numeric(target.address, target.port)
            if place is None:
                names.append(target.address)
            else:
                self._add(target, [place])
        self._dial_more()
        if names:
            try:
                self._resolving = Resolving(names)
                self.until = time.monotonic() + self._look_up
                self.polled[self._resolving.fd] = select.POLLIN
            except OSError as error:
                self._unresolved(in_words(error))

    @property
    def done(self) -> bool:
        """Every target has a result."""
        return len(self.results) == len(self._asked)

    def _add(self, target: Target, places: list[Place]) -> None:
        self._known[target.id] = len({place[1][0] for place in places})
        self._waiting += [(place, target) for place in reversed(places)]

    def _dial_more(self) -> None:
        while self._waiting and len(self._open) < AT_ONCE:
            place, target = self._waiting.pop()
            if target.id in self.results:
                continue
            try:
                self._dial(place, target)
            except OSError as error:
                self._note(place, target, explained(error))

    def _dial(self, place: Place, target: Target) -> None:
        each = socket.socket(place[0], socket.SOCK_STREAM)
        each.setblocking(False)
        code = each.connect_ex(place[1])
        if code not in (0, errno.EINPROGRESS):
            each.close()
            raise OSError(code, os.strerror(code))
        self._open[each.fileno()] = each, place, target
        self.polled[each.fileno()] = select.POLLOUT

    def on_ready(self, fd: int) -> None:
        """Something happened on a connection, or a name was looked up."""
        if self._resolving is not None and fd == self._resolving.fd:
            self._add_addresses()
        elif fd in self._open:  # another address of its name may have been faster
            self._proceed(fd)
        self._dial_more()
        self._hurry()

    def _proceed(self, fd: int) -> None:
        # A connection is seen up to three times: it is there (or failed), the challenge has come, the answer has come.
        each, place, target = self._open[fd]
        code = each.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            # One that knows another word resets the connection.
            why = SOMETHING_ELSE if fd in self._challenges else explained(OSError(code, os.strerror(code)))
        elif self.polled[fd] == select.POLLOUT:
            self.polled[fd] = select.POLLIN  # connected; now the challenge
            return
        elif fd not in self._challenges:
            why = self._meet_challenge(fd, each, target.word.encode())
            if not why:
                return
        else:
            why = heard(each, target.word.encode(), self._challenges[fd])
        self._close(fd)
        self._note(place, target, why)

    def _meet_challenge(self, fd: int, each: socket.socket, word: bytes) -> str:
        """Prove that we know the word; or why not."""
        try:
            challenge = each.recv(LONGEST_PROOF)
            if len(challenge) != CHALLENGE:
                return SOMETHING_ELSE
            self._challenges[fd] = challenge
            each.send(proof(word, DIALS, challenge))
        except OSError as error:
            return explained(error)
        return ""

    def _add_addresses(self) -> None:
        assert self._resolving is not None
        answers = self._resolving.answers()
        if answers is None:
            self._unresolved("the look-up ended without an answer")
            return
        for name, addresses, why in answers:
            for target in [each for each in self._unanswered() if each.address == name]:
                places = [place for each in addresses if (place := numeric(each, target.port))]
                if places:
                    self._add(target, places)
                else:
                    self._finish(target, unresolved(name, why))
        # Names that are still looked up keep their time; what can be dialled from now on gets the whole time for that.
        self.until = max(self.until if self._unanswered() else 0.0, time.monotonic() + self._seconds)

    def _unanswered(self) -> list[Target]:
        """Targets whose addresses are not known yet."""
        return [each for key, each in self._asked.items() if key not in self._known and key not in self.results]

    def _unresolved(self, why: str) -> None:
        """No further addresses come."""
        self._stop_resolving()
        for target in self._unanswered():
            self._finish(target, unresolved(target.address, why))

    def _note(self, place: Place, target: Target, why: str) -> None:
        """One of a target's addresses has been reached, or not."""
        key, address = target.id, str(place[1][0])
        tried = self._tried.setdefault(key, {})
        tried[address] = why
        if len(tried) == self._known[key]:
            self._finish(target, result(tried))

    def _hurry(self) -> None:
        """Once all that is left has been reached at one address, the others get a moment."""
        left = [key for key in self._asked if key not in self.results]
        if left and all("" in self._tried.get(key, {}).values() for key in left):
            self.until = min(self.until, time.monotonic() + A_MOMENT)

    def _finish(self, target: Target, result: str) -> None:
        self.results[target.id] = result
        for fd in [fd for fd, (_, _, other) in self._open.items() if other is target]:
            self._close(fd)
        if self.done:
            self._stop_resolving()

    def _close(self, fd: int) -> None:
        self._open.pop(fd)[0].close()
        del self.polled[fd]
        self._challenges.pop(fd, None)

    def _stop_resolving(self) -> None:
        if self._resolving is not None:
            del self.polled[self._resolving.fd]
            self._resolving.close()
            self._resolving = None

    def give_up(self) -> None:
        """The time is over: what has not been reached is not."""
        late = f"no answer in {self._seconds:g} s"
        for fd in list(self._open):
            if fd in self._open:
                _, place, target = self._open[fd]
                self._close(fd)
                self._note(place, target, late)
        self._waiting, left = [], self._waiting
        for place, target in left:
            if target.id not in self.results:
                self._note(place, target, f"not tried within {self._seconds:g} s")
        self._unresolved(f"no answer in {self._look_up:g} s")


def heard(each: socket.socket, word: bytes, challenge: bytes) -> str:
    """Nothing, if somebody who knows the word answers; else what is wrong."""
    try:
        said = each.recv(LONGEST_PROOF)
    except OSError:
        return SOMETHING_ELSE
    return "" if is_proof(said, word, ANSWERS, challenge) else SOMETHING_ELSE


def result(tried: dict[str, str]) -> str:
    """Of a target, by its addresses: nothing, if one was reached; else why none was."""
    reasons = tried.values()
    if "" in reasons:
        return ""
    return next(iter(reasons)) if len(tried) == 1 else "; ".join(f"{where}: {why}" for where, why in tried.items())


def explained(error: OSError) -> str:
    """Why a connection did not come about."""
    return error.strerror or str(error)
