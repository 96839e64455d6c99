"""The ports of this host's tasks: held for the run, answered at until workers start, then kept from strangers."""

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
    """From the reservation on, over all attempts."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._held: dict[str, socket.socket] = {}
        self._answering: Answering | None = None
        self._gate: Gate | None = None
        self._gate_trouble: str | None = None
        """Why there can be none here; None: that was not tried yet."""
        self._gate_decided = False
        """Once a worker may listen it is too late for a gate, which must be the first."""
        self._strangers: Strangers | None = None

    def handlers(self) -> Handlers:
        return {Reserve: self._reserve}

    @property
    def ports(self) -> dict[str, int]:
        """By task."""
        return {name: each.getsockname()[1] for name, each in self._held.items()}

    def _reserve(self, asked: Reserve) -> None:
        self._open_gate()
        try:
            # those of an earlier attempt are held still, and serve again
            self._held = self._held or hold_ports(asked.names, asked.first, asked.last)
            if asked.word:
                self._answering = Answering(list(self.ports.values()), asked.word)
        except OSError as error:
            self._link.tell(NotReserved(in_words(error)))
            return
        self._link.tell(Reserved(self.ports))
        self._link.flush()
        self._try_gate()  # while the launcher makes its plan

    def give_to_workers(self, hold: bool, admitted: str) -> None:
        """They are about to start. `hold`, `admitted`: as `Start` has them."""
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
        """Find out once whether this kernel can have one."""
        from launcher.on_host.agent.gate import prove_that_kernel_obeys  # takes longer than the rest of the start

        if self._gate_trouble is None:
            try:
                prove_that_kernel_obeys()
                self._gate_trouble = ""
            except OSError as error:
                self._gate_trouble = error.strerror or str(error)

    def _close_gate(self, admitted: Iterable[str]) -> None:
        """Keep all others off the workers' ports, or tell why that cannot be done here."""
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
        """No worker is left to be kept from anybody."""
        if self._gate is not None:
            self._gate.close()
            self._gate = None
        self._gate_decided = False

    @property
    def own_inodes(self) -> set[int] | frozenset[int]:
        """The gate's sockets, as /proc/net/tcp calls them: they listen, but are no worker's."""
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
