"""The gate before the workers' ports: TensorFlow's servers get connections from the hosts of the run alone.

Such a server asks nobody who he is, and does whatever it is told with the rights of its user. So the agent listens at
the port first, with SO_REUSEPORT; TensorFlow joins it (TF_GRPC_REUSE_PORT=true); and a program in the kernel gives each
connection to TensorFlow or to the agent, by the address that it comes from. The agent resets what it gets. Only the
first packet of a connection is looked at.

A socket keeps its place in the row as long as none before it closes (the last one then moves into the hole). The one of
the agent is the first, and stays open until no worker is left.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct

from launcher.on_host.agent.gate_program import admission, always, plain_address
from launcher.on_host.agent.reach import listener, reset

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterable, Iterator, Mapping

SO_ATTACH_REUSEPORT_CBPF = 51
AT_A_TIME = 64
"""Connections that are turned away before everything else gets its turn."""
REMEMBERED = 4096
"""Strangers that are told from each other."""
TOLD_SINGLY = 5
"""Strangers that are told of one by one; of the next ones, each time that they have doubled."""
TRIALS = 4
"""Connections by which a kernel proves that it obeys: one that chooses by chance passes once in 2^8 times."""
TRIAL_SECONDS = 1.0
"""For each of them, on this machine's loopback."""


class Gate:
    """Listens before the workers do, and turns away whoever the kernel gives to it."""

    def __init__(self, ports: Mapping[str, int], admitted: Iterable[str], strangers: Strangers) -> None:
        """Close the ports of these tasks but for loopback and the addresses `admitted`.

        Raises:
            OSError: this kernel has no such gate, or the addresses are too many for it.
        """
        self._admitted = {plain_address(each) for each in admitted}
        self._strangers = strangers
        self.listeners: dict[int, tuple[socket.socket, str]] = {}
        try:
            program = admission(self._admitted)
            for task, port in ports.items():
                each = listener(port)
                self.listeners[each.fileno()] = each, task
                attach(each, program)
        except ValueError as error:
            self.close()
            raise OSError(str(error)) from error
        except OSError:
            self.close()
            raise

    @property
    def inodes(self) -> set[int]:
        """Its own sockets, as /proc/net/tcp calls them."""
        return {os.fstat(fd).st_ino for fd in self.listeners}

    def turn_away(self, fd: int) -> Iterator[tuple[str, str, int]]:
        """Reset what has come to a listener; yield each stranger to tell of: task, address, how many there were.

        A host of the run that comes before the worker listens tries again, and is no stranger.
        """
        listening, task = self.listeners[fd]
        for _ in range(AT_A_TIME):
            try:
                guest, place = listening.accept()
            except OSError:
                return
            reset(guest)
            address = plain_address(place[0])
            if not self._admits(address) and self._strangers.is_to_be_told(address):
                yield task, address, len(self._strangers)

    def _admits(self, address: str) -> bool:
        return address in self._admitted or address == "::1" or address.startswith("127.")

    def close(self) -> None:
        """Leave the ports."""
        for each, _ in self.listeners.values():
            each.close()
        self.listeners = {}


class Strangers:
    """Whom a run has turned away so far. Each is told of once, and of many only how many there are."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def is_to_be_told(self, address: str) -> bool:
        """Count one in; whether something is to be said now."""
        if address in self._seen or len(self._seen) == REMEMBERED:
            return False
        self._seen.add(address)
        number = len(self._seen)
        return number <= TOLD_SINGLY or number & (number - 1) == 0


def attach(listening: socket.socket, program: bytes) -> None:
    """Have the kernel choose by this program among the sockets at a port.

    Raises:
        OSError: it cannot.
    """
    text = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HP", len(program) // 8, ctypes.addressof(text))
    listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, described)


def prove_that_kernel_obeys() -> None:
    """Let connections find two sockets that share a port, as a program says; some systems only pretend to read it.

    Raises:
        OSError: they do not find them.
    """
    with listener(0) as first, listener(first.getsockname()[1]) as second:
        for place, wanted in enumerate((first, second)):
            attach(first, always(place))
            for _ in range(TRIALS):
                socket.create_connection(("127.0.0.1", first.getsockname()[1]), TRIAL_SECONDS).close()
                try:
                    wanted.accept()[0].close()
                except BlockingIOError:
                    raise OSError("this system does not let a program choose who takes a connection") from None
