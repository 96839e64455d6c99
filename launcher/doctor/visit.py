"""Examining hosts: all at once, each as far as it goes. A host that fails ends nothing but its own part."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import msgspec

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.plan import TaskPlan
from launcher.doctor.examination import Answers, Dial, HostExamination
from launcher.doctor.probing import Parts, Probe
from launcher.hosts import events
from launcher.hosts.all_hosts import DIAL_SECONDS, LOOK_UP_SECONDS, Hosts
from launcher.hosts.attending import attend_until
from launcher.hosts.facts import HostFacts
from launcher.hosts.inbox import Inbox
from launcher.hosts.ssh_complaint import Complaint
from launcher.on_host.agent.framing import UnreadableError
from launcher.on_host.agent.messages import (
    Command,
    DialPorts,
    ProgramEnded,
    ProgramNotRun,
    ProgramSaid,
    Reserve,
    Start,
    Target,
)
from launcher.on_host.probe.answers import Speed

HOST, WORKER = "host", "worker"
"""The probes of a host: by its agent's own Python, and by the Python of its workers."""
HOME = "~"
OWN_PYTHON = ("/proc/self/exe", "-I", "-S")
"""What runs the agent, for a child of it, whatever its workers' environment says."""


class VisitedHost:
    """One host: what it was asked, what it has answered so far."""

    def __init__(self, host: Host, send: Callable[[Command], None]) -> None:
        self.send = send
        self.found = HostExamination(host)
        self.dials: list[Dial] = []
        self.dialled: Mapping[str, str] | None = None
        self.probes: dict[str, Probe] = {}

    @property
    def is_ready(self) -> bool:
        """It has told of itself, and whether it has ports."""
        has_ports = self.found.ports or self.found.no_ports or not self.found.host.tasks
        return self.found.facts is not None and bool(has_ports)

    @property
    def has_answered(self) -> bool:
        """Nothing that it was asked for is missing."""
        is_dialling = self.dials and self.dialled is None
        return not is_dialling and all(probe.has_answered for probe in self.probes.values())

    @property
    def counts(self) -> bool:
        """Others may send to its port, to measure how fast that is."""
        return "counting" in self.probes[HOST].told

    @property
    def speed(self) -> Speed:
        """Of the link that it was asked for last."""
        measured = None if "measured" in self.probes[HOST].awaited else self.found.answers.measured
        return measured or Speed(reason="no answer")

    def begin(self, plan: TaskPlan, python: str, workdir_comes: bool) -> None:
        """Start its probes. `workdir_comes`: the start makes the working directory, if it is not there (`sync`)."""
        self.found = replace(self.found, plan=plan, runs_python=plan.argv[0] == python)
        workdirs = [plan.workdir, *([HOME] if workdir_comes else [])]
        self.probes = {
            HOST: Probe(HOST, self.send, OWN_PYTHON, [HOME], plan.env),
            WORKER: Probe(WORKER, self.send, [python], workdirs, plan.env),
        }

    def hear(self, event: events.Event) -> None:
        """What came from it, or was found out about its connection.

        Raises:
            UnreadableError: a probe of ours does not tell that.
        """
        match event:
            case events.HostReady(_, told):
                self.found = replace(self.found, facts=HostFacts.of(told, time.time()))
            case events.PortsReserved(_, ports):
                self.found = replace(self.found, ports=ports)
            case events.ReservationFailed(_, reason):
                self.found = replace(self.found, no_ports=reason)
            case events.Dialled(_, results):
                self.dialled = results
            case events.HostLost(_, reason, remedy):
                self.found = replace(self.found, complaint=self.found.complaint or Complaint(reason, remedy))
            case events.Answer(_, (ProgramSaid(name) | ProgramNotRun(name) | ProgramEnded(name)) as message):
                if name not in self.probes:
                    raise UnreadableError("news of a program that was not started there")
                try:
                    self.probes[name].hear(message)
                    self.found = replace(self.found, answers=self._answers())
                except msgspec.ValidationError as error:
                    raise UnreadableError(f"an answer of its probe: {error}") from error

    def _answers(self) -> Answers:
        host, worker = self.probes[HOST], self.probes[WORKER]
        trouble = (*host.trouble.items(), *worker.trouble.items())
        return msgspec.convert({**host.told, **worker.told, "trouble": trouble}, Answers)

    def examination(self) -> HostExamination:
        """All that was found out about it."""
        if not self.probes:
            return self.found
        host, worker = self.probes[HOST], self.probes[WORKER]
        silence = host.refusal or host.silence or worker.silence
        return replace(self.found, refusal=worker.refusal, silence=silence)


class Visit:
    """Asks all hosts at the same time, and waits for their answers."""

    def __init__(self, cluster: Cluster, hosts: Hosts, inbox: Inbox) -> None:
        """Let each host hold ports for its tasks."""
        self._agents = hosts
        self._inbox = inbox
        self._word = os.urandom(16).hex()
        self.hosts = {host.name: VisitedHost(host, partial(hosts.send, host.name)) for host in cluster.hosts}
        for host in cluster.hosts:
            first, last = (host.ports.first, host.ports.last) if host.ports else (0, 0)
            hosts.send(host.name, Reserve([task.slug for task in host.tasks], first, last, f"{self._word} {host.name}"))

    def await_ready(self, seconds: float) -> None:
        """Return once each host has told of itself or failed.

        Raises:
            StopRequestedError: a signal came, here and in all that follows.
        """
        self._await(lambda each: each.is_ready, seconds)
        for name, each in self.hosts.items():
            if not each.is_ready and each.found.complaint is None:
                complaint = Complaint(f"no answer in {seconds:g} s (timeouts.start)")
                each.found = replace(each.found, complaint=complaint)
                self._agents.give_up(name, complaint.reason)

    def dial(self, dials: Iterable[Dial]) -> None:
        """Let hosts try to reach each other; whoever waits for answers waits for what comes of that, too."""
        for dial in dials:
            self.hosts[dial.dialler].dials.append(dial)
        for each in self.hosts.values():
            if each.dials:
                numbered = enumerate(each.dials)
                targets = [Target(str(n), to.address, to.port, f"{self._word} {to.host}") for n, to in numbered]
                each.send(DialPorts(targets, DIAL_SECONDS, LOOK_UP_SECONDS))

    @property
    def dialled(self) -> dict[Dial, str]:
        """Who reached what."""
        return {each.dials[int(n)]: why for each in self.hosts.values() for n, why in (each.dialled or {}).items()}

    def ask(self, probe: str, seconds: float, parts: Mapping[str, Parts]) -> None:
        """Ask probes of some hosts for something each, and wait for the answers."""
        for name, asked in parts.items():
            self.hosts[name].probes[probe].ask(asked)
        self.await_answers(seconds)

    def await_answers(self, seconds: float) -> None:
        """Return once everybody has answered; who has not after that time is not asked any more."""
        self._await(lambda each: each.has_answered, seconds)
        for each in self.hosts.values():
            for probe in each.probes.values():
                if not probe.has_answered:
                    probe.give_up(seconds)

    def let_programs_come(self, names: Iterable[str]) -> None:
        """Others than the agents may answer at the ports that these hold."""
        for name in names:
            self.hosts[name].send(Start([], True, "all"))

    def dismiss(self, seconds: float) -> None:
        """Return once no probe is left."""
        for each in self.hosts.values():
            for probe in each.probes.values():
                probe.dismiss()
        self._await(lambda each: not any(probe.talking for probe in each.probes.values()), seconds)

    def _await(self, done: Callable[[VisitedHost], bool], seconds: float) -> None:
        until = time.monotonic() + seconds

        def over() -> bool:
            return all(each.found.complaint or done(each) for each in self.hosts.values())

        for _ in attend_until(self._agents, self._inbox, over, lambda: until, self._hear):
            pass

    def _hear(self, event: events.Event) -> None:
        if not isinstance(event, events.GatheringEnded | events.Stalled | events.Interrupted):
            try:
                self.hosts[event.host].hear(event)
            except UnreadableError as error:
                self._agents.give_up(event.host, f"it sent something unreadable: {error}")
