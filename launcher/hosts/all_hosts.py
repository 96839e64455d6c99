"""All agents of a run at once: connect, prepare, start, stop, close."""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from launcher.caller.called_as import launch_command
from launcher.cluster.cluster import Host
from launcher.cluster.plan import AttemptPlan, TaskPlan
from launcher.cluster.spec import ClusterSpec, Task, dialled_at, is_loopback
from launcher.errors import HostError
from launcher.hosts import events
from launcher.hosts.access import access, allow_open_files
from launcher.hosts.attending import Observer, attend_until, raise_if_interrupted
from launcher.hosts.connection import Connection
from launcher.hosts.facts import VARIABLES, HostFacts, same_machines
from launcher.hosts.heartbeat import Heartbeat
from launcher.hosts.inbox import Inbox, receive
from launcher.hosts.reachability import LOOPBACK, Proof
from launcher.hosts.shortage import for_shortage
from launcher.hosts.transport import AGENT, CONNECTING_AT_ONCE
from launcher.on_host.agent.messages import (
    EVENTS,
    Acknowledge,
    AwaitEvaluator,
    Command,
    DialPorts,
    Event,
    Hello,
    Put,
    Reserve,
    Start,
    Stop,
    WorkerStart,
)

SETTLE = 0.5
"""Seconds to wait for more failures after the first host has failed, so that one report names them all."""
STARTING = 0.5
"""Seconds that agents' processes get to start before the launcher goes on."""
DIAL_SECONDS = 3.0
"""How long hosts try to reach each other's ports. TCP sends a lost first packet again after one second."""
LOOK_UP_SECONDS = 11
"""How long names may take to resolve before that. A resolver tries its next server after five seconds."""


class Hosts:
    """The agents of all hosts, started together. Leaving the `with` block ends them and whatever they still run."""

    def __init__(
        self,
        hosts: Iterable[Host],
        inbox: Inbox,
        lease: float,
        program: Sequence[str] = AGENT,
        known: Mapping[str, type[Event]] = EVENTS,
    ) -> None:
        """Begin to connect.

        Args:
            hosts: all of the cluster.
            inbox: gets the events of all hosts.
            lease: seconds without a heartbeat after which an agent ends its workers, and the launcher gives up a host.
            program: the packages of the agent's program.
            known: all messages that this program may send.
        """
        self._inbox = inbox
        self._lease = lease
        self._heartbeat = Heartbeat(lease)
        self._hosts = tuple(hosts)
        self._program, self._known = program, known
        self._slots = threading.Semaphore(CONNECTING_AT_ONCE)
        allow_open_files(len(self._hosts))
        self._files: dict[str, Put] = {}
        self._admitted = ""
        self._answers = _Answers()
        self.losses: dict[str, str] = {}
        """Why each lost host was lost, even if it is back by now. The caller clears it once all hosts are back."""
        self._connections = {host.name: self._connect(host) for host in self._hosts}

    def await_start(self) -> None:
        """Wait until the agents' processes have started: those that may connect at the same time.

        The threads that start them need the interpreter's lock (the GIL) again after each system call, and would wait
        5 ms for it each time if this thread computed meanwhile.
        """
        until = time.monotonic() + STARTING
        for connection in itertools.islice(self._connections.values(), CONNECTING_AT_ONCE):
            connection.await_start(until)

    def _connect(self, host: Host, former: Connection | None = None) -> Connection:
        host_access = replace(access(host, self._lease), packages=self._program)
        connection = Connection(host.name, host.tasks, host_access, self._inbox, self._slots, former, self._known)
        connection.send(Hello(self._lease, list(VARIABLES)))
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.begin_to_close()
        for connection in self._connections.values():
            connection.close()

    @property
    def facts(self) -> Mapping[str, HostFacts]:
        """What each prepared host has reported about itself."""
        return self._answers.facts

    def put_files(self, host: str, root: str, files: Mapping[str, bytes]) -> None:
        """Write small files below `root` on a host before anything is started there."""
        sizes = [(path, len(data)) for path, data in files.items()]
        self._files[host] = Put(root, sizes, b"".join(files.values()))
        self.send(host, self._files[host])

    def send(self, host: str, command: Command) -> None:
        """Send a command to a host's agent; a lost host ignores it."""
        self._connections[host].send(command)

    def ssh_words(self, host: str) -> Sequence[str]:
        """The ssh command line for a host, up to its name; empty for this machine."""
        return self._connections[host].ssh_words

    def prepare(self, timeout: float, observe: Observer) -> ClusterSpec:
        """Reserve a port for every task, and prove that all other hosts reach it there.

        `observe` gets every event meanwhile, and must pass it on to `on_event`.

        Raises:
            HostError: within `timeout` seconds a host did not answer, had no free port, or could not be reached.
            StopRequestedError: a signal came first.
        """
        until = time.monotonic() + timeout
        word = os.urandom(16).hex()
        self._answers.ports.clear()
        self.reserve("" if self._is_alone else word)
        self._await(partial(self._answers.missing, self._hosts), until, observe)
        addresses = self._proven_addresses(word, until, observe)
        return cluster_spec(self._hosts, self._answers.ports, addresses)

    def reserve(self, word: str) -> None:
        """Have each host hold a port for each task. Who dials them must prove to know `word`; empty: nobody answers."""
        for host in self._hosts:
            first, last = (host.ports.first, host.ports.last) if host.ports else (0, 0)
            known = f"{word} {host.name}" if word else ""
            self.send(host.name, Reserve([task.slug for task in host.tasks], first, last, known))

    def on_event(self, event: events.Event) -> None:
        """Remember a host's facts, and why a host was lost. To be called with every event."""
        match event:
            case events.HostReady(host, ready):
                self._answers.facts[host] = HostFacts.of(ready, time.time())
            case events.HostLost(host):
                self.losses[host] = event.complaint

    def reconnect_lost(self, observe: Observer) -> None:
        """Begin to connect again to each lost host, before all hosts are prepared for the next attempt.

        `observe` gets the events that are still in the inbox, as in `prepare`: they answer no later question.

        Raises:
            StopRequestedError: there was a signal.
        """
        while (event := receive(self._inbox, 0)) is not None:
            observe(event)
            raise_if_interrupted(event)
        self._answers.forget_failures()
        for host in self._hosts:
            former = self._connections[host.name]
            if former.lost:
                self._answers.forget(host.name)
                self._connections[host.name] = self._connect(host, former=former)
                if host.name in self._files:
                    self.send(host.name, self._files[host.name])

    @property
    def _is_alone(self) -> bool:
        """Whether a single host dials itself over loopback, so that no address has to be proven."""
        return len(self._hosts) == 1 and is_loopback(self._hosts[0].address or LOOPBACK)

    def _proven_addresses(self, word: str, until: float, observe: Observer) -> Mapping[str, str]:
        if self._is_alone:
            return {host.name: host.address or LOOPBACK for host in self._hosts}
        for one, other in same_machines({host.name: self._answers.facts[host.name] for host in self._hosts}):
            raise HostError(f"{one} and {other} are the same machine: list it once, with all of its workers")
        proof = Proof(self._hosts, self._answers.facts, self._answers.ports, word)
        while targets := proof.targets():
            self._answers.dialled.clear()
            look_up = max(DIAL_SECONDS, min(LOOK_UP_SECONDS, int(until - time.monotonic() - DIAL_SECONDS)))
            for name, asked in targets.items():
                self.send(name, DialPorts(asked, DIAL_SECONDS, look_up))
            self._await(partial(self._answers.not_dialled, targets), until, observe)
            proof.add_results(self._answers.dialled)
        if proof.failures:
            raise HostError(*proof.failures, *self._where_to_look())
        return proof.addresses

    def _await(self, missing: Callable[[], list[str]], until: float, observe: Observer) -> None:
        """Wait until no host is `missing`, or only hosts that have failed.

        Raises:
            HostError: a host has failed, or the time is over.
        """
        answers = self._answers

        def over() -> bool:
            return answers.failures.keys() >= set(missing())

        for event in attend_until(self, self._inbox, over, lambda: min(until, answers.give_up_at), observe):
            answers.update(event)
        if answers.failures:
            failures = answers.failures.copy()
            answers.forget_failures()
            raise HostError(*failures.values(), *self._where_to_look())
        if silent := ", ".join(missing()):
            raise HostError(f"{silent}: no answer in time (timeouts.start)", *self._where_to_look())

    def _where_to_look(self) -> list[str]:
        several = any(not host.is_local for host in self._hosts)
        return (
            [f"`{launch_command()} doctor` with the same options looks at every host, and starts nothing"]
            if several
            else []
        )

    # ---- for the supervisor
    def start(self, plan: AttemptPlan) -> None:
        """Start every task of the plan on its host."""
        self._admitted = plan.admitted
        for host in self._hosts:
            self.send(host.name, start_command(plan.on(host.name), host.hold_ports, plan.admitted))

    def start_again(self, plan: TaskPlan) -> None:
        """Restart a task whose process has ended, with the same port and log."""
        host = next(host for host in self._hosts if host.name == plan.host)
        self.send(host.name, start_command([plan], host.hold_ports, self._admitted))

    def await_evaluator(self, plan: TaskPlan) -> None:
        """Ask when an evaluator has evaluated the last checkpoint; the answer is `EvaluatorDone`."""
        self.send(plan.host, AwaitEvaluator(plan.task.slug, plan.env["LAUNCH_OUTPUT_DIR"]))

    def stop(self, signal: int, grace: float) -> None:
        """Signal everything that the run has started, on all hosts; SIGKILL follows after `grace` seconds."""
        for connection in self._connections.values():
            connection.send(Stop(signal, grace))

    def beat(self) -> None:
        """Send every agent a heartbeat when one is due, and give up hosts that have been silent for a whole lease."""
        self._heartbeat.keep(self._connections.values())

    @property
    def beat_interval(self) -> float:
        """Seconds between two heartbeats."""
        return self._heartbeat.interval

    def is_lost(self, host: str) -> bool:
        """Whether the host was lost and is not connected again."""
        return self._connections[host].lost

    def give_up(self, host: str, reason: str) -> None:
        """Drop a host: `HostLost` at once, with this reason, and nothing from it afterwards. Thread-safe."""
        self._connections[host].give_up(reason)

    def acknowledge(self, host: str, task: Task, count: int) -> None:
        """Bytes of a task's log were shown: its host may send as many more."""
        self.send(host, Acknowledge(task.slug, count))


class _Answers:
    """What the hosts have answered so far."""

    def __init__(self) -> None:
        self.facts: dict[str, HostFacts] = {}
        self.ports: dict[str, Mapping[Task, int]] = {}
        self.dialled: dict[str, Mapping[str, str]] = {}
        self.failures: dict[str, str] = {}
        self.give_up_at = math.inf
        """When to stop waiting after the first failure, on the monotonic clock."""

    def update(self, event: events.Event) -> None:
        match event:
            case events.PortsReserved(host, ports):
                self.ports[host] = ports
            case events.Dialled(host, results):
                self.dialled[host] = results
            case events.ReservationFailed(host, reason):
                remedy = for_shortage(reason, (), host) or "change `ports`"
                self._fail(host, f"{host}: no ports for its workers: {reason}; {remedy}")
            case events.PutFailed(host, reason):
                self._fail(host, f"{host}: {reason}")
            case events.HostLost(host):
                self._fail(host, event.complaint)

    def _fail(self, host: str, why: str) -> None:
        self.failures[host] = why
        self.give_up_at = min(self.give_up_at, time.monotonic() + SETTLE)

    def forget_failures(self) -> None:
        self.failures, self.give_up_at = {}, math.inf

    def forget(self, host: str) -> None:
        for answers in (self.facts, self.ports, self.dialled, self.failures):
            answers.pop(host, None)

    def missing(self, hosts: Iterable[Host]) -> list[str]:
        return [host.name for host in hosts if not (host.name in self.facts and host.name in self.ports)]

    def not_dialled(self, asked: Iterable[str]) -> list[str]:
        return [name for name in asked if name not in self.dialled]


def cluster_spec(
    hosts: Iterable[Host], ports: Mapping[str, Mapping[Task, int]], addresses: Mapping[str, str]
) -> ClusterSpec:
    """The cluster spec from each host's ports and proven address."""
    return ClusterSpec(
        {task: dialled_at(addresses[host.name], port) for host in hosts for task, port in ports[host.name].items()}
    )


def start_command(plans: Iterable[TaskPlan], hold: bool, admitted: str) -> Start:
    """The command that starts these workers. `hold`, `admitted`: as in `Start`."""
    workers = [
        WorkerStart(plan.task.slug, list(plan.argv), dict(plan.env), plan.workdir, plan.port, plan.log, plan.progress)
        for plan in plans
    ]
    return Start(workers, hold, admitted)
