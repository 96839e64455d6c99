"""The gate at the workers' ports: TensorFlow's servers get connections only from hosts of the run.

Why: a TensorFlow server has no authentication, and executes whatever it is sent with the rights of its user. It
listens at all addresses of its machine, and a firewall would need root.

How: the agent listens at the port first, with SO_REUSEPORT. TensorFlow joins it (TF_GRPC_REUSE_PORT=true). A BPF
program in the kernel then picks one of the two sockets for each connection, by its source address. The agent resets
what it gets. The program runs only for the first packet of a connection, so training pays nothing for it.

The program picks a socket by its index, so the order of the sockets matters. A socket keeps its index as long as none
before it closes (then the last one moves into the gap). That is why the agent must be the first to listen, and keeps
its socket open until no worker is left.
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
"""Connections that are refused in one turn of the agent's loop, so that a flood does not starve the other jobs."""
REMEMBERED = 4096
"""Strangers whose addresses are remembered, which bounds the memory that they can take up."""
REPORTED_SINGLY = 5
"""Strangers that are reported one by one; of more, only each doubling of their number is."""
TRIALS = 8
"""Connections for each of two sockets: a kernel that ignores the program would get all of them right by chance once in
2^16 trials."""
TRIAL_SECONDS = 1.0
"""Seconds for each of them, over loopback."""


class Gate:
    """Listens at the ports before the workers do, and refuses the connections that the kernel passes to it."""

    def __init__(self, ports: Mapping[str, int], admitted: Iterable[str], strangers: Strangers) -> None:
        """Close the ports of these tasks to all but loopback and the addresses `admitted`.

        Raises:
            OSError: this kernel cannot do that, or there are too many addresses for its program.
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
        """The inodes of its sockets, as in /proc/net/tcp."""
        return {os.fstat(fd).st_ino for fd in self.listeners}

    def turn_away(self, fd: int) -> Iterator[tuple[str, str, int]]:
        """Reset the connections at a listener; yield each stranger to report: task, address, how many there were.

        A host of the run gets here, too, before the worker listens; its gRPC tries again, and it is no stranger.
        """
        listening, task = self.listeners[fd]
        for _ in range(AT_A_TIME):
            try:
                guest, place = listening.accept()
            except OSError:
                return
            reset(guest)
            address = plain_address(place[0])
            if not self._admits(address) and self._strangers.is_to_be_reported(address):
                yield task, address, len(self._strangers)

    def _admits(self, address: str) -> bool:
        return address in self._admitted or address == "::1" or address.startswith("127.")

    def close(self) -> None:
        """Leave the ports."""
        for each, _ in self.listeners.values():
            each.close()
        self.listeners = {}


class Strangers:
    """The addresses that were refused so far. Each is reported once; of many, only their number is."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def is_to_be_reported(self, address: str) -> bool:
        """Count an address; return whether to report it."""
        if address in self._seen or len(self._seen) == REMEMBERED:
            return False
        self._seen.add(address)
        number = len(self._seen)
        return number <= REPORTED_SINGLY or number & (number - 1) == 0


def attach(listening: socket.socket, program: bytes) -> None:
    """Have this program choose among the sockets at a port.

    Raises:
        OSError: the kernel cannot do that.
    """
    text = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HP", len(program) // 8, ctypes.addressof(text))
    listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, described)


def check_kernel() -> None:
    """Check that connections really go to the socket that a program picks: some systems accept one and ignore it.

    Raises:
        OSError: a connection went to the other socket.
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
