"""Examining hosts: all at once, each as far as it goes. A host that fails ends nothing but its own part."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from launcher.cluster.cluster import Host
from launcher.cluster.spec import Task
from launcher.doctor.answers import Answers
from launcher.doctor.examination import Dial, HostExamination, Speed
from launcher.doctor.probing import Probing, Question
from launcher.hosts import events
from launcher.hosts.access import access, allow_open_files
from launcher.hosts.all_hosts import DIAL_SECONDS, LOOK_UP_SECONDS, StopRequestedError
from launcher.hosts.facts import VARIABLES, HostFacts
from launcher.hosts.heartbeat import Heartbeat
from launcher.hosts.one_host import HostConnection, Inbox, receive
from launcher.hosts.ssh_complaint import Complaint
from launcher.hosts.transport import CONNECTING_AT_ONCE, EXAMINER
from launcher.on_host.agent.framing import UnreadableError
from launcher.on_host.agent.messages import DialPorts, Hello, Reserve, Target
from launcher.on_host.examiner.messages import (
    EVENTS,
    CountBytes,
    CountingBytes,
    GateTried,
    MeasureSpeed,
    SpeedMeasured,
    TryGate,
)

MEASURING_ENDS = 3.0
"""Seconds after its own time in which a host has to say what a measurement gave."""


class Visited:
    """One host: what it was asked, what it has answered so far."""

    def __init__(self, host: Host, patient: HostConnection) -> None:
        self.host = host
        self.patient = patient
        self.complaint: Complaint | None = None
        """Why nothing more will come."""
        self.facts: HostFacts | None = None
        self.ports: Mapping[Task, int] | None = None
        self.no_ports = ""
        self.no_gate = ""
        self.dials: Sequence[Dial] = ()
        self.dialled: Mapping[str, str] | None = None
        self.probing: Probing | None = None
        self.counting: bool | None = None
        self.speed: Speed | None = None

    @property
    def is_ready(self) -> bool:
        """It has told of itself, and whether it has ports."""
        return self.facts is not None and (self.ports is not None or bool(self.no_ports))

    @property
    def answers(self) -> Answers:
        """All that its probe has told."""
        return self.probing.answers if self.probing else Answers()

    @property
    def talking(self) -> bool:
        """Its probe may be asked for more."""
        return self.complaint is None and self.probing is not None and self.probing.talking

    def take(self, event: events.Event) -> None:
        """Hear it."""
        match event:
            case events.HostReady(_, told):
                self.facts = HostFacts.of(told, time.time())
            case events.PortsReserved(_, ports):
                self.ports = ports
            case events.ReservationFailed(_, reason):
                self.no_ports = reason
            case events.Dialled(_, results):
                self.dialled = results
            case events.HostLost(_, reason, remedy):
                self.complaint = self.complaint or Complaint(reason, remedy)
            case events.Answer(_, message):
                self._take_answer(message)

    def _take_answer(self, message: object) -> None:
        match message:
            case GateTried(reason):
                self.no_gate = reason
            case CountingBytes(reason):
                self.counting = not reason
            case SpeedMeasured(reason, _, rate, round_trip, retransmitted):
                self.speed = Speed(rate, round_trip, retransmitted, reason)
            case _ if self.probing is not None:
                try:
                    self.probing.take(message)
                except UnreadableError as error:
                    self.patient.give_up(f"it sent something unreadable: {error}")

    def examination(self) -> HostExamination:
        """All of it, as a value."""
        found = HostExamination(self.host, self.complaint, self.facts, self.ports or {}, self.no_ports, self.no_gate)
        if self.probing is None:
            return found
        question = self.probing.question
        return replace(
            found,
            plan=question.plan,
            runs_python=question.runs_python,
            refusal=self.probing.refusal,
            answers=self.answers,
            silence=self.probing.silence,
        )


class Visit:
    """An agent on each host. Leaving the `with` block ends them, and whatever they still run."""

    def __init__(self, hosts: Iterable[Host], inbox: Inbox, lease: float) -> None:
        """Connect, and have ports held."""
        self._inbox = inbox
        self._lease = lease
        self._heartbeat = Heartbeat(lease)
        self._word = os.urandom(16).hex()
        gate = threading.Semaphore(CONNECTING_AT_ONCE)
        hosts = tuple(hosts)
        allow_open_files(len(hosts))
        self.hosts = {host.name: Visited(host, self._connected(host, gate)) for host in hosts}

    def _connected(self, host: Host, gate: threading.Semaphore) -> HostConnection:
        way = replace(access(host, self._lease), packages=EXAMINER)
        patient = HostConnection(host.name, host.tasks, way, self._inbox, gate, known=EVENTS)
        patient.send(Hello(self._lease, list(VARIABLES)))
        first, last = (host.ports.first, host.ports.last) if host.ports else (0, 0)
        patient.send(Reserve([task.slug for task in host.tasks], first, last, f"{self._word} {host.name}"))
        patient.send(TryGate())
        return patient

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self.hosts.values():
            each.patient.begin_to_close()
        for each in self.hosts.values():
            each.patient.close()

    def await_ready(self, seconds: float) -> None:
        """Return once each host has told of itself or failed.

        Raises:
            StopRequestedError: a signal came, here and in all that follows.
        """
        self._await(lambda each: each.is_ready, seconds)
        for each in self.hosts.values():
            if not each.is_ready and each.complaint is None:
                each.complaint = Complaint(f"no answer in {seconds:g} s (timeouts.start)")
                each.patient.give_up(each.complaint.reason)

    def dial_and_ask(self, dials: Iterable[Dial], questions: Mapping[str, Question], seconds: float) -> None:
        """Let hosts try to reach each other, and tell what their workers would find."""
        by_host: dict[str, list[Dial]] = {}
        for dial in dials:
            by_host.setdefault(dial.dialler, []).append(dial)
        for name, question in questions.items():
            each = self.hosts[name]
            each.probing = Probing(each.patient, question)
            each.dials = by_host.get(name, ())
            targets = [self._target(number, dial) for number, dial in enumerate(each.dials)]
            each.patient.send(DialPorts(targets, DIAL_SECONDS, LOOK_UP_SECONDS))
        self._await(
            lambda each: not each.probing or (each.dialled is not None and (each.answers.all_told or not each.talking)),
            seconds,
        )
        for probing in self._talking():
            if not probing.answers.all_told:
                probing.give_up(f"no answer in {seconds:g} s")

    def _target(self, number: int, dial: Dial) -> Target:
        return Target(str(number), dial.address, dial.port, f"{self._word} {dial.host}")

    @property
    def dialled(self) -> dict[Dial, str]:
        """Who reached what."""
        return {
            each.dials[int(number)]: why for each in self.hosts.values() for number, why in (each.dialled or {}).items()
        }

    def ask_more(self, done: Callable[[Answers], bool], seconds: float, **what: Any) -> None:
        """Ask all probes that still talk one more thing."""
        for probing in self._talking():
            probing.ask_more(**what)
        self._await(lambda each: done(each.answers) or not each.talking, seconds)
        for probing in self._talking():
            if not done(probing.answers):
                probing.give_up(f"no answer in {seconds:g} s")

    def dismiss(self, seconds: float) -> None:
        """Return once no probe is left."""
        for probing in self._talking():
            probing.dismiss()
        self._await(lambda each: not each.talking, seconds)

    def _talking(self) -> list[Probing]:
        return [each.probing for each in self.hosts.values() if each.talking and each.probing]

    def count(self, names: Iterable[str], seconds: float) -> list[str]:
        """Let the ports of these hosts be sent to; which of them do."""
        wanted = set(names)
        for name in wanted:
            self.hosts[name].patient.send(CountBytes())
        self._await(lambda each: each.counting is not None or each.host.name not in wanted, seconds)
        return [name for name in wanted if self.hosts[name].counting]

    def measure(self, targets: Mapping[str, tuple[str, int]], size: int, seconds: float) -> dict[str, Speed]:
        """Let each of these hosts send to an address and port, all at the same time; how fast each was."""
        for name, (address, port) in targets.items():
            self.hosts[name].speed = None
            self.hosts[name].patient.send(MeasureSpeed(address, port, size, seconds))
        self._await(lambda each: each.speed is not None or each.host.name not in targets, seconds + MEASURING_ENDS)
        return {name: self.hosts[name].speed or Speed(reason="no answer") for name in targets}

    def _await(self, done: Callable[[Visited], bool], seconds: float) -> None:
        until = time.monotonic() + seconds
        while not all(each.complaint or done(each) for each in self.hosts.values()):
            left = until - time.monotonic()
            if left <= 0:
                return
            self._heartbeat.keep(each.patient for each in self.hosts.values())
            event = receive(self._inbox, min(left, self._heartbeat.interval))
            if isinstance(event, events.Interrupted):
                raise StopRequestedError(event.signal)
            if event is not None and not isinstance(event, events.GatheringEnded | events.Stalled):
                self.hosts[event.host].take(event)
