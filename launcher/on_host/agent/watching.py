"""Looks at the workers from time to time, and reports which of them only wait, and which share a port."""

from __future__ import annotations

from launcher.on_host.agent.framing import MOST_LISTED
from launcher.on_host.agent.messages import Resting, SharedPort, WaitsElsewhere
from launcher.on_host.agent.processes import descendants, processes
from launcher.on_host.agent.rest import AT_REST, PATIENCE, Rest, has_tensorflow, tensorflow_process, waits_for_lock
from launcher.on_host.agent.sockets import ESTABLISHED, LISTEN, SYN_SENT, inodes_of, shared_ports, tcp_sockets

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable, Iterable
    from typing import Any

    from launcher.on_host.agent.workers import Worker

STOP_LOOK = 0.25
"""Seconds between two looks after a stop signal."""
FIRST_LOOK, LAST_LOOK = 1.0, 10.0
"""Seconds before the first look at running workers, and between two looks later on."""


class Watch:
    """Watches the workers of this host."""

    def __init__(self, tell: Callable[..., None], now: float, patience: float = PATIENCE) -> None:
        self.tell = tell
        self.patience = patience
        self.stopping = False
        self.pause = FIRST_LOOK
        self.due = now + self.pause
        self.rests: dict[str, Rest] = {}
        self.resting: set[str] = set()
        self.reported: set[str | int] = set()
        """Tasks that wait elsewhere, and shared ports: each is reported once."""

    def begin_stop(self) -> None:
        """The workers got a stop signal: measure idleness from now on."""
        if not self.stopping:
            self.stopping = True
            self.due = 0.0
            self.rests.clear()

    def look(self, workers: Iterable[Worker], now: float) -> None:
        """Look, if that is due, and report what has changed."""
        if now < self.due:
            return
        self.due = now + (STOP_LOOK if self.stopping else self.pause)
        self.pause = min(LAST_LOOK, 2 * self.pause)
        running = [worker for worker in workers if not worker.exited]
        table = processes() if running else {}
        trees = {worker: [worker.pid, *descendants(worker.pid, table)] for worker in running}
        if self.stopping:
            self._look_for_rest(trees, now)
        else:
            self._look_for_waits(trees, now)
            self._look_for_shared_ports(trees)

    # ---- after a stop signal
    def _look_for_rest(self, trees: dict[Worker, list[int]], now: float) -> None:
        for worker, pids in trees.items():
            rests = self._seconds_of_rest(worker, pids, now) >= AT_REST and waits_in_tensorflow(pids)
            if rests != (worker.name in self.resting):
                self.resting ^= {worker.name}
                self.tell(Resting(worker.name, rests))

    def _seconds_of_rest(self, worker: Worker, pids: list[int], now: float) -> float:
        return self.rests.setdefault(worker.name, Rest()).measure(pids, worker.output_bytes(), now)

    # ---- while they run
    def _look_for_waits(self, trees: dict[Worker, list[int]], now: float) -> None:
        for worker, pids in trees.items():
            # A worker that listens at its own address may wait for its peers as long as it likes.
            if worker.listens or worker.reports.count or worker.name in self.reported:
                continue
            if self._seconds_of_rest(worker, pids, now) >= self.patience and waits_in_tensorflow(pids):
                self.reported.add(worker.name)
                self.tell(WaitsElsewhere(worker.name, worker.port, **connections(pids)))

    def _look_for_shared_ports(self, trees: dict[Worker, list[int]]) -> None:
        owners = {pid: worker for worker, pids in trees.items() for pid in pids}
        own_ports = {worker.port for worker in trees}
        for port, pids in shared_ports(owners):
            sharing = [pid for pid in pids if port not in self.reported and has_tensorflow(pid)]
            tasks = {owners[pid].name for pid in sharing}
            # At other ports, the processes of one task may share on purpose, as forking servers do.
            if len(sharing) > 1 and (port in own_ports or len(tasks) > 1):
                self.reported.add(port)
                self.tell(SharedPort(port, [(owners[pid].name, pid) for pid in sharing]))


def waits_in_tensorflow(pids: list[int]) -> bool:
    """Whether the program has TensorFlow loaded and its main thread waits for a lock, as it does for its peers."""
    program = tensorflow_process(pids)
    return program is not None and waits_for_lock(program)


def connections(pids: list[int]) -> dict[str, Any]:
    """The ports that processes listen at, the peers that they are connected to, and those they try to connect to."""
    inodes = {inode for pid in pids for inode in inodes_of(pid)}
    own = [each for each in tcp_sockets(pids[0]) if each.inode in inodes]
    ports = {each.port for each in own}
    peers = {state: {each.peer for each in own if each.state == state} for state in (ESTABLISHED, SYN_SENT)}
    outside = {
        state: sorted(peer for peer in found if int(peer.rpartition(":")[2]) not in ports)[:MOST_LISTED]
        for state, found in peers.items()
    }
    listening = sorted({each.port for each in own if each.state == LISTEN})[:MOST_LISTED]
    return {"ports": listening, "connected": outside[ESTABLISHED], "dialled": outside[SYN_SENT]}
