"""The course of an examination: what is asked when, of all hosts at once."""

from __future__ import annotations

import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path, PurePath

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.plan import HostContext, TaskPlan, brings_training, plan_attempt, python_of
from launcher.cluster.spec import ClusterSpec, Task
from launcher.doctor.checks.network import rounds
from launcher.doctor.examination import Dial, Examination, Gradients
from launcher.doctor.probing import HOST, WORKER, ExaminedHost, Parts
from launcher.hosts import events
from launcher.hosts.all_hosts import DIAL_SECONDS, LOOK_UP_SECONDS, Hosts, cluster_spec
from launcher.hosts.attending import attend_until
from launcher.hosts.facts import HostFacts, candidates, same_machines
from launcher.hosts.inbox import Inbox
from launcher.hosts.reachability import LOOPBACK
from launcher.hosts.ssh_complaint import Complaint
from launcher.on_host.agent.framing import UnreadableError
from launcher.on_host.agent.messages import DialPorts, Start, Target
from launcher.on_host.probe.answers import Speed
from launcher.run.host_contexts import Names, host_contexts
from launcher.run_directory.directory import RunDirectory

NAME = "doctor"
"""Stands where the name of a run would; no directory of this name is made."""
UNKNOWN_PORT = 0
ANSWER_SECONDS = 20.0
"""For all that a host can find out without importing TensorFlow; a slow GPU driver takes 5 s of it."""
LOOK_SECONDS = 5.0
IMPORT_SECONDS = 120.0
MEASURED_BYTES, MEASURED_SECONDS = 64e6, 1.0
"""What a host may send, and how long it may take, in all measurements together."""
MEASURING_ENDS = 3.0
"""Seconds that a host gets beyond a measurement's own time to report it."""

Addresses = Mapping[str, tuple[str, ...]]
"""Where each host may be dialled, the likeliest address first."""
Ports = Mapping[str, Mapping[Task, int]]


class Doctor:
    """Examines the hosts of a cluster. One that fails does not keep the others from being examined."""

    def __init__(self, cluster: Cluster, runs: Path, agents: Hosts, inbox: Inbox) -> None:
        """Have each host hold ports for its tasks. `runs`: where this machine's runs are."""
        self._cluster = cluster
        self._runs = runs
        self._agents = agents
        self._inbox = inbox
        self._word = os.urandom(16).hex()
        self._hosts = {host.name: ExaminedHost(host, partial(agents.send, host.name)) for host in cluster.hosts}
        agents.reserve(self._word)

    def examine(self, import_tensorflow: bool, gradients: Gradients) -> Examination:
        """Ask, measure, and put everything back.

        Raises:
            StopRequestedError: the user would not wait.
            UsageError: the cluster file asks for what cannot be shared out.
        """
        self._await_ready(self._cluster.timeouts.start)
        found = [each.found for each in self._hosts.values()]
        facts = {each.name: each.facts for each in found if each.facts and not each.complaint}
        ports = {each.name: each.ports for each in found if each.ports}
        possible = possible_addresses(self._cluster.hosts, facts)
        self._dial(dials(self._cluster.hosts, possible, ports))
        markers = {name: f".tf-launch-{NAME}-{uuid.uuid4().hex}" for name in facts}
        self._ask_each(facts, ports, possible, markers)
        examined = [name for name, each in self._hosts.items() if each.probes]
        if len(facts) > 1:
            others = {name: {other: markers[other] for other in markers if other != name} for name in examined}
            self._ask(HOST, LOOK_SECONDS, {name: {"seen": [others[name]]} for name in examined})
            self._ask(HOST, LOOK_SECONDS, {name: {"unmarked": []} for name in examined})
        if import_tensorflow:
            self._ask(WORKER, IMPORT_SECONDS, {name: {"tensorflow": []} for name in examined})
        dialled = {dial: why for each in self._hosts.values() for dial, why in each.dialled.items()}
        addresses = chosen(dialled, possible)
        twins = {other for _, other in same_machines(facts)}
        measurable = {name: next(iter(ports[name].values())) for name in addresses if name in ports.keys() - twins}
        speeds = self._speeds(addresses, measurable, dialled)
        self._dismiss()
        hosts = tuple(each.examination() for each in self._hosts.values())
        return Examination(self._cluster, hosts, gradients, import_tensorflow, addresses, dialled, speeds)

    # ---- what is asked
    def _dial(self, dials: Iterable[Dial]) -> None:
        """Have hosts try to reach each other. The results are among the answers that are awaited next."""
        for dial in dials:
            self._hosts[dial.dialler].dials.append(dial)
        for each in self._hosts.values():
            if each.dials:
                numbered = enumerate(each.dials)
                targets = [Target(str(n), to.address, to.port, f"{self._word} {to.host}") for n, to in numbered]
                each.send(DialPorts(targets, DIAL_SECONDS, LOOK_UP_SECONDS))

    def _ask_each(
        self, facts: Mapping[str, HostFacts], ports: Ports, possible: Addresses, markers: Mapping[str, str]
    ) -> None:
        """Start the probes, and ask each host for what it can find out alone."""
        hosts, directory = self._cluster.hosts, RunDirectory(self._runs / NAME)
        contexts = host_contexts(self._cluster, directory, Names.of(NAME), facts, fix_keras=False)
        plan = plan_attempt(self._cluster, supposed_spec(hosts, ports, possible), contexts, NAME, attempt=0)
        for host in hosts:
            if host.name in facts and host.tasks:
                first, context = plan.on(host.name)[0], contexts[host.name]
                self._ask_host(host, first, context, possible[host.name], markers[host.name])
        self._await_answers(ANSWER_SECONDS)

    def _ask_host(
        self, host: Host, plan: TaskPlan, context: HostContext, addresses: Iterable[str], marker: str
    ) -> None:
        command, runs_dir = self._cluster.command_of(plan.task), str(PurePath(context.run_dir).parent)
        python, comes = python_of(command, host, context), self._cluster.sync is not None and not host.is_local
        # A program that a run brings along need not be there yet.
        argv = [python] if comes or brings_training(command) else list(plan.argv)
        trusted = [[runs_dir, "--run-dir" if host.is_local else "run_dir", True]]
        examined = self._hosts[host.name]
        examined.begin(plan, python, comes)
        by_python = {"python": [], "packages": [], "program": [argv, plan.argv[0] == python], "surroundings": []}
        examined.probes[WORKER].ask(by_python)
        examined.probes[HOST].ask(
            {
                "gate": [],
                "surroundings": [],
                "network_cards": [*addresses],
                "gpus": [],
                "room": [runs_dir],
                "unsafe": [*trusted, *([[plan.workdir, "workdir", False]] if comes else [])],
                "unwritable": [runs_dir, marker],
            }
        )

    def _speeds(
        self, addresses: Mapping[str, str], ports: Mapping[str, int], dialled: Mapping[Dial, str]
    ) -> dict[tuple[str, str], Speed]:
        """Measure the links between hosts that reach each other, at one port of each."""
        if len(ports) < 2:
            return {}
        for name in ports:
            self._agents.send(name, Start([], True, "all"))  # others than the agents may answer at their ports
        self._ask(HOST, LOOK_SECONDS, {name: {"counting": [port]} for name, port in ports.items()})
        failed = [dial for dial, why in dialled.items() if why and dial.address == addresses[dial.host]]
        unreached = {(dial.dialler, dial.host) for dial in failed}
        speeds: dict[tuple[str, str], Speed] = {}
        each_round = rounds(list(ports))
        limits = [int(MEASURED_BYTES / len(each_round)), MEASURED_SECONDS / len(each_round)]
        for pairs in each_round:
            links = [(one, to) for one, to in pairs if (one, to) not in unreached and self._hosts[to].counts]
            asked = {one: {"measured": [addresses[to], ports[to], *limits]} for one, to in links}
            self._ask(HOST, MEASURED_SECONDS + MEASURING_ENDS, asked)
            speeds |= {link: self._hosts[link[0]].speed for link in links}
        return speeds

    # ---- waiting for answers
    def _await_ready(self, seconds: float) -> None:
        """Return once each host is ready or has failed."""
        self._await(lambda each: each.is_ready, seconds)
        for name, each in self._hosts.items():
            if not each.is_ready and each.found.complaint is None:
                reason = f"no answer in {seconds:g} s (timeouts.start)"
                each.complain(Complaint(reason))
                self._agents.give_up(name, reason)

    def _ask(self, probe: str, seconds: float, parts: Mapping[str, Parts]) -> None:
        """Ask this probe of some hosts, each for its parts, and wait for the answers."""
        for name, asked in parts.items():
            self._hosts[name].probes[probe].ask(asked)
        self._await_answers(seconds)

    def _await_answers(self, seconds: float) -> None:
        """Return once all have answered. A probe that has not by then is not asked again."""
        self._await(lambda each: each.has_answered, seconds)
        for each in self._hosts.values():
            for probe in each.probes.values():
                if not probe.has_answered:
                    probe.give_up(seconds)

    def _dismiss(self) -> None:
        """End the probes; return once none is left."""
        for each in self._hosts.values():
            for probe in each.probes.values():
                probe.dismiss()
        self._await(lambda each: not any(probe.talking for probe in each.probes.values()), LOOK_SECONDS)

    def _await(self, done: Callable[[ExaminedHost], bool], seconds: float) -> None:
        until = time.monotonic() + seconds

        def over() -> bool:
            return all(each.found.complaint or done(each) for each in self._hosts.values())

        for _ in attend_until(self._agents, self._inbox, over, lambda: until, self._hear):
            pass

    def _hear(self, event: events.Event) -> None:
        if not isinstance(event, events.GatheringEnded | events.Stalled | events.Interrupted):
            try:
                self._hosts[event.host].hear(event)
            except UnreadableError as error:
                self._agents.give_up(event.host, f"it sent something unreadable: {error}")


# ---- every worker's port is dialled from every other host, at every address that may be the right one
def possible_addresses(hosts: Iterable[Host], facts: Mapping[str, HostFacts]) -> Addresses:
    """Where each host that has answered may be dialled."""
    hosts = tuple(hosts)
    if len(hosts) == 1:
        return {host.name: (host.address or LOOPBACK,) for host in hosts if host.name in facts}
    return {host.name: candidates(host, facts) for host in hosts if host.name in facts}


def dials(hosts: Iterable[Host], addresses: Addresses, ports: Ports) -> list[Dial]:
    """Every host dials all others; a host with several workers dials itself, too."""
    hosts = [host for host in hosts if host.name in addresses]
    return [
        Dial(dialler.name, host.name, address, task, port)
        for dialler in hosts
        for host in hosts
        if dialler.name != host.name or len(host.tasks) > 1
        for address in addresses[host.name]
        for task, port in ports.get(host.name, {}).items()
    ]


def supposed_spec(hosts: Iterable[Host], ports: Ports, possible: Addresses) -> ClusterSpec:
    """Who would listen where, as far as is known before hosts have dialled each other."""
    hosts = tuple(hosts)
    supposed = {host.name: ports.get(host.name) or dict.fromkeys(host.tasks, UNKNOWN_PORT) for host in hosts}
    return cluster_spec(hosts, supposed, {host.name: (*possible.get(host.name, ()), host.name)[0] for host in hosts})


def chosen(dialled: Mapping[Dial, str], addresses: Addresses) -> dict[str, str]:
    """For each host the first address at which all others reach all its ports, else the one that fails least."""
    failures = Counter((dial.host, dial.address) for dial, why in dialled.items() if why)
    found = {host: possible for host, possible in addresses.items() if possible}
    return {host: min(possible, key=lambda address: failures[host, address]) for host, possible in found.items()}
