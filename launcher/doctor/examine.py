"""The course of an examination: what is asked when, and of whom."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path, PurePath

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.plan import HostContext, TaskPlan, brings_training, plan_attempt, python_of
from launcher.cluster.spec import ClusterSpec, dialled_at
from launcher.doctor.examination import Examination, Gradients
from launcher.doctor.exchange import BYTES, SECONDS, rounds
from launcher.doctor.reach import chosen, dials, failures, possible_addresses
from launcher.doctor.visit import HOST, WORKER, Visit
from launcher.hosts.facts import same_machines
from launcher.on_host.probe.answers import Speed
from launcher.run.host_contexts import Names, host_contexts
from launcher.run_directory.directory import RunDirectory

NAME = "doctor"
"""In place of a run's; no directory of this name is made."""
UNKNOWN_PORT = 0
ANSWER_SECONDS = 20.0
"""For all that a host can tell without importing TensorFlow; a slow GPU driver takes 5 s of it."""
LOOK_SECONDS = 5.0
IMPORT_SECONDS = 120.0
MEASURING_ENDS = 3.0
"""Seconds after its own time in which a host has to say what a measurement gave."""


class Doctor:
    """Finds out everything about the hosts of a cluster, in one visit."""

    def __init__(self, cluster: Cluster, runs: Path, visit: Visit) -> None:
        """`runs`: where runs of this machine go."""
        self._cluster = cluster
        self._runs = runs
        self._visit = visit

    def examine(self, import_tensorflow: bool, gradients: Gradients) -> Examination:
        """Ask, measure, and put everything back.

        Raises:
            StopRequestedError: the user would not wait.
            UsageError: the cluster file asks for what cannot be shared out.
        """
        visit, cluster = self._visit, self._cluster
        visit.await_ready(cluster.timeouts.start)
        found = {name: each.found for name, each in visit.hosts.items()}
        self._facts = {name: each.facts for name, each in found.items() if each.facts and not each.complaint}
        self._ports = {name: each.ports for name, each in found.items() if each.ports}
        self._possible = possible_addresses(cluster.hosts, self._facts)
        self._markers = {name: f".tf-launch-{NAME}-{uuid.uuid4().hex}" for name in self._facts}
        visit.dial(dials(cluster.hosts, self._possible, self._ports))
        self._ask_each()
        examined = [name for name, each in visit.hosts.items() if each.probes]
        if len(self._facts) > 1:
            visit.ask(HOST, LOOK_SECONDS, {name: {"seen": [[*self._markers.values()]]} for name in examined})
            visit.ask(HOST, LOOK_SECONDS, {name: {"unmarked": []} for name in examined})
        if import_tensorflow:
            visit.ask(WORKER, IMPORT_SECONDS, {name: {"tensorflow": []} for name in examined})
        addresses = chosen(visit.dialled, self._possible)
        speeds = self._speeds(addresses)
        visit.dismiss(LOOK_SECONDS)
        return Examination(
            cluster,
            tuple(each.examination() for each in visit.hosts.values()),
            gradients,
            import_tensorflow,
            addresses,
            visit.dialled,
            {name: self._sees(name) for name in self._facts},
            speeds,
        )

    # ---- what is asked of each host alone
    def _ask_each(self) -> None:
        directory = RunDirectory(self._runs / NAME)
        contexts = host_contexts(self._cluster, directory, Names.of(NAME), self._facts, fix_keras=False)
        plan = plan_attempt(self._cluster, self._supposed_spec(), contexts, NAME, attempt=0)
        for host in self._cluster.hosts:
            if host.name in self._facts and host.tasks:
                self._ask_host(host, plan.on(host.name)[0], contexts[host.name])
        self._visit.await_answers(ANSWER_SECONDS)

    def _ask_host(self, host: Host, plan: TaskPlan, context: HostContext) -> None:
        command, runs_dir = self._cluster.command_of(plan.task), str(PurePath(context.run_dir).parent)
        python, comes = python_of(command, host, context), self._cluster.sync is not None and not host.is_local
        # what comes along with a run need not be there
        argv = [python] if comes or brings_training(command) else list(plan.argv)
        trusted = [[runs_dir, "--run-dir" if host.is_local else "run_dir", True]]
        visited = self._visit.hosts[host.name]
        visited.begin(plan, python, comes)
        by_python = {"python": [], "packages": [], "program": [argv, plan.argv[0] == python], "surroundings": []}
        visited.probes[WORKER].ask(by_python)
        visited.probes[HOST].ask(
            {
                "gate": [],
                "surroundings": [],
                "network_cards": list(self._possible[host.name]),
                "gpus": [],
                "room": [runs_dir],
                "unsafe": [*trusted, *([[plan.workdir, "workdir", False]] if comes else [])],
                "unwritable": [runs_dir, self._markers[host.name]],
            }
        )

    def _supposed_spec(self) -> ClusterSpec:
        """Who would listen where, as far as that is known before hosts have dialled each other."""
        return ClusterSpec(
            {
                task: dialled_at((*self._possible.get(host.name, ()), host.name)[0], ports.get(task, UNKNOWN_PORT))
                for host in self._cluster.hosts
                for ports in (self._ports.get(host.name, {}),)
                for task in host.tasks
            }
        )

    # ---- what only several hosts together can tell
    def _sees(self, name: str) -> tuple[str, ...]:
        seen = self._visit.hosts[name].found.answers.seen or ()
        return tuple(other for other, marker in self._markers.items() if other != name and marker in seen)

    def _speeds(self, addresses: Mapping[str, str]) -> dict[tuple[str, str], Speed]:
        """Of the links between machines that reach each other."""
        visit, twins = self._visit, {other for _, other in same_machines(self._facts)}
        hosts = [name for name in addresses if self._ports.get(name) and name not in twins]
        if len(hosts) < 2:
            return {}
        ports = {name: next(iter(self._ports[name].values())) for name in hosts}
        visit.let_programs_come(hosts)
        visit.ask(HOST, LOOK_SECONDS, {name: {"counting": [ports[name]]} for name in hosts})
        failed = failures(visit.dialled)
        unreached = {(dial.dialler, to) for to, at in addresses.items() for dial in failed.get((to, at), ())}
        speeds: dict[tuple[str, str], Speed] = {}
        each_round = rounds(hosts)
        for pairs in each_round:
            limits = [int(BYTES / len(each_round)), SECONDS / len(each_round)]
            asked = {
                pair: [addresses[pair[1]], ports[pair[1]], *limits]
                for pair in pairs
                if pair not in unreached and visit.hosts[pair[1]].counts
            }
            visit.ask(HOST, SECONDS + MEASURING_ENDS, {pair[0]: {"measured": words} for pair, words in asked.items()})
            speeds |= {pair: visit.hosts[pair[0]].speed for pair in asked}
        return speeds
