"""The ports of this host's tasks: held for the whole run, used for the proof of addresses, then closed to strangers.

Between choosing a free port and the moment when a worker binds it, any other program could take it. So the agent binds
the ports itself and keeps them bound over all attempts; the workers' servers join its sockets (SO_REUSEPORT). Only
where a worker cannot do that (`hold_ports: false`) are the ports released just before the workers start.
"""

from __future__ import annotations

import select

from launcher.on_host.agent.facts import own_addresses
from launcher.on_host.agent.jobs import Job
from launcher.on_host.agent.limits import in_words
from launcher.on_host.agent.messages import NoGate, NotReserved, Reserve, Reserved, Stranger
from launcher.on_host.agent.ports import close_sockets, hold_ports
from launcher.on_host.agent.reach import Answering

if False:  # names for type checkers only: typing costs start-up time
    import socket
    from collections.abc import Iterable

    from launcher.on_host.agent.gate import Gate, Strangers
    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.link import Link


class HeldPorts(Job):
    """Holds the ports from the reservation on, over all attempts."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._held: dict[str, socket.socket] = {}
        self._answering: Answering | None = None
        self._gate: Gate | None = None
        self._gate_trouble: str | None = None
        """Why this kernel has no gate; empty: it has one; None: not tried yet."""
        self._gate_decided = False
        """Workers may be listening: too late for a gate, whose socket must be the first at its port."""
        self._strangers: Strangers | None = None

    def handlers(self) -> Handlers:
        return {Reserve: self._reserve}

    @property
    def ports(self) -> dict[str, int]:
        """The port of each task."""
        return {name: each.getsockname()[1] for name, each in self._held.items()}

    def _reserve(self, asked: Reserve) -> None:
        self._open_gate()
        try:
            # The ports of an earlier attempt are still held, and used again.
            self._held = self._held or hold_ports(asked.names, asked.first, asked.last)
            if asked.word:
                self._answering = Answering(list(self.ports.values()), asked.word)
        except OSError as error:
            self._link.tell(NotReserved(in_words(error)))
            return
        self._link.tell(Reserved(self.ports))
        self._link.flush()
        self._try_gate()  # now, while the launcher makes its plan

    def give_to_workers(self, hold: bool, admitted: str) -> None:
        """The workers are about to start. `hold`, `admitted`: as in `Start`."""
        seen: set[str] = set()
        if self._answering is not None:
            self._answering.close()
            seen, self._answering = self._answering.seen, None
        if not hold:
            close_sockets(self._held)
            self._held = {}
        elif admitted != "all" and not self._gate_decided:
            self._close_gate({*seen, *own_addresses()} if admitted == "hosts" else ())
        self._gate_decided = True

    # ---- the gate
    def _try_gate(self) -> None:
        """Find out once whether this kernel can do it."""
        from launcher.on_host.agent.gate import check_kernel  # takes longer than the rest of the start

        if self._gate_trouble is None:
            try:
                check_kernel()
                self._gate_trouble = ""
            except OSError as error:
                self._gate_trouble = error.strerror or str(error)

    def _close_gate(self, admitted: Iterable[str]) -> None:
        """Refuse connections from all other addresses, or report why that cannot be done here."""
        from launcher.on_host.agent.gate import Gate, Strangers

        self._strangers = self._strangers or Strangers()
        trouble = self._gate_trouble
        if not trouble:
            try:
                self._gate = Gate(self.ports, admitted, self._strangers)
            except OSError as error:
                trouble = error.strerror or str(error)
        if trouble:
            self._link.tell(NoGate(trouble))

    def _open_gate(self) -> None:
        """No worker is left: accept everybody, until the next workers start."""
        if self._gate is not None:
            self._gate.close()
            self._gate = None
        self._gate_decided = False

    @property
    def own_inodes(self) -> set[int] | frozenset[int]:
        """The inodes of the gate's sockets in /proc/net/tcp: they listen, but belong to no worker."""
        return self._gate.inodes if self._gate else frozenset()

    @property
    def polled(self) -> dict[int, int]:
        answering = self._answering.fds if self._answering else ()
        return dict.fromkeys([*answering, *(self._gate.listeners if self._gate else ())], select.POLLIN)

    def on_ready(self, fd: int) -> None:
        if self._answering is not None and fd in self._answering.fds:
            self._answering.on_ready(fd)
        elif self._gate is not None and fd in self._gate.listeners:
            for task, address, number in self._gate.turn_away(fd):
                self._link.tell(Stranger(task, address, number))
