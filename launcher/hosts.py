"""All agents of a run at once: connect, reserve, start, stop, close."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from launcher import events
from launcher.agent_process import AgentProcess
from launcher.cluster import ClusterSpec, Task, dialled_at
from launcher.cluster_file import LOCALHOST, Host
from launcher.errors import HostError
from launcher.free_ports import free_ports
from launcher.host import BEATS_PER_LEASE, HostConnection, Inbox, receive
from launcher.transport import agent_argv

if TYPE_CHECKING:
    from launcher.plan import AttemptPlan  # not needed before the agents are started

LOOPBACK = "127.0.0.1"


class StopRequestedError(Exception):
    """The user asked the launcher to end while it was still talking to the hosts."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal


class Hosts:
    """One agent each, started together. Leaving the `with` block ends them, and whatever they still run."""

    def __init__(self, hosts: Iterable[Host], inbox: Inbox, lease: float, early: AgentProcess | None = None) -> None:
        """Connect. `early`: an agent of this machine that was started before."""
        self._inbox = inbox
        self._lease = lease
        self._hosts = tuple(hosts)
        self._connections = {
            host.name: HostConnection(host.name, host.tasks, _process(host.name, early), inbox) for host in self._hosts
        }
        for connection in self._connections.values():
            connection.hello(lease)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def reserve(self, timeout: float, observe: Callable[[events.Event], None]) -> ClusterSpec:
        """A port for every task, as a cluster spec; held on its host for the run unless the file says otherwise.

        Raises:
            HostError: a host did not answer within `timeout` seconds, or has no port to give.
            StopRequestedError: a signal came first.
        """
        holding = [host for host in self._hosts if host.hold_ports]
        for host in holding:
            first, last = (host.ports.first, host.ports.last) if host.ports else (0, 0)
            self._connections[host.name].reserve(host.tasks, first, last)
        held = self._reservations({host.name for host in holding}, time.monotonic() + timeout, observe)
        return cluster_spec(
            self._hosts, {**held, **{host.name: free_ports(host) for host in self._hosts if not host.hold_ports}}
        )

    def _reservations(
        self, waiting: set[str], until: float, observe: Callable[[events.Event], None]
    ) -> Mapping[str, Mapping[Task, int]]:
        ports: dict[str, Mapping[Task, int]] = {}
        while waiting - ports.keys():
            self.beat()
            event = receive(self._inbox, min(until - time.monotonic(), self._lease / BEATS_PER_LEASE))
            if event is not None:
                observe(event)
            match event:
                case None if time.monotonic() >= until:
                    silent = ", ".join(sorted(waiting - ports.keys()))
                    raise HostError(f"{silent}: no answer in time (timeouts.start)")
                case events.PortsReserved():
                    ports[event.host] = event.ports
                case events.ReservationFailed():
                    raise HostError(f"{event.host}: no ports for its workers: {event.reason}; change `ports`")
                case events.HostLost():
                    raise HostError(f"{event.host}: the agent could not be started: {event.reason}")
                case events.Interrupted():
                    raise StopRequestedError(event.signal)
        return ports

    # ---- what the supervisor asks of them
    def start(self, plan: AttemptPlan) -> None:
        """Start every task of the plan on its host."""
        for name, connection in self._connections.items():
            connection.start(plan.on(name))

    def stop(self, signal: int, grace: float) -> None:
        """Signal everything that the run started, everywhere; SIGKILL follows after `grace` seconds."""
        for connection in self._connections.values():
            connection.stop(signal, grace)

    def beat(self) -> None:
        """Renew every agent's lease."""
        for connection in self._connections.values():
            connection.beat()

    def acknowledge(self, host: str, task: Task, count: int) -> None:
        """A piece of a task's log is dealt with; as much more may come."""
        self._connections[host].acknowledge(task, count)


def cluster_spec(hosts: Iterable[Host], ports: Mapping[str, Mapping[Task, int]]) -> ClusterSpec:
    """Who listens where, from each host's ports."""
    return ClusterSpec(
        {task: dialled_at(_address(host), port) for host in hosts for task, port in ports[host.name].items()}
    )


def _process(host: str, early: AgentProcess | None) -> AgentProcess:
    if early is not None and host == LOCALHOST:
        return early
    process = AgentProcess(agent_argv(host))
    process.send_program()
    return process


def _address(host: Host) -> str:
    """What the other workers dial."""
    return host.address or (LOOPBACK if host.name == LOCALHOST else host.name.rpartition("@")[2])
