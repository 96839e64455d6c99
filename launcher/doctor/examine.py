"""The course of an examination: what is asked when, and of whom."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path, PurePath

from launcher.caller.here import here
from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.plan import HostContext, TaskPlan, brings_training, plan_attempt, python_of
from launcher.cluster.spec import ClusterSpec, dialled_at
from launcher.doctor.examination import Examination, Speed
from launcher.doctor.exchange import BYTES, SECONDS, gradients, rounds
from launcher.doctor.probing import Question
from launcher.doctor.reach import chosen, dials, failures, possible_addresses
from launcher.doctor.visit import Visit
from launcher.hosts.facts import same_machines
from launcher.run.host_contexts import Names, host_contexts
from launcher.run.request import Request
from launcher.run_directory.directory import RunDirectory

NAME = "doctor"
"""In place of a run's; no directory of this name is made."""
UNKNOWN_PORT = 0
ANSWER_SECONDS = 20.0
"""For all that a host can tell without importing TensorFlow; a slow GPU driver takes 5 s of it."""
LOOK_SECONDS = 5.0
IMPORT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class DoctorRequest:
    """What the command line asks for."""

    run: Request
    """What it says of the run that is to come."""
    import_tensorflow: bool = False
    gradient_mb: float | None = None


class Doctor:
    """Finds out everything about the hosts of a file, in one visit."""

    def __init__(self, cluster: Cluster, request: DoctorRequest, visit: Visit) -> None:
        self._cluster = cluster
        self._request = request
        self._visit = visit

    def examine(self) -> Examination:
        """From the first word to the last.

        Raises:
            StopRequestedError: the user would not wait.
            UsageError: the cluster file asks for what cannot be shared out.
        """
        visit, cluster = self._visit, self._cluster
        visit.await_ready(cluster.timeouts.start)
        self._facts = {name: each.facts for name, each in visit.hosts.items() if each.facts and not each.complaint}
        self._ports = {name: each.ports for name, each in visit.hosts.items() if each.ports}
        self._possible = possible_addresses(cluster.hosts, self._facts)
        self._markers = {name: f".tf-launch-{NAME}-{uuid.uuid4().hex}" for name in self._facts}
        visit.dial_and_ask(dials(cluster.hosts, self._possible, self._ports), self._questions(), ANSWER_SECONDS)
        if len(self._facts) > 1:
            visit.ask_more(lambda answers: answers.seen is not None, LOOK_SECONDS, markers=[*self._markers.values()])
            visit.ask_more(lambda answers: answers.unmarked, LOOK_SECONDS, unmark=True)
        if self._request.import_tensorflow:
            visit.ask_more(lambda answers: answers.tensorflow is not None, IMPORT_SECONDS, tensorflow=True)
        visit.dismiss(LOOK_SECONDS)
        self._addresses = chosen(visit.dialled, self._possible)
        speeds = self._speeds()
        return Examination(
            cluster,
            tuple(each.examination() for each in visit.hosts.values()),
            gradients(cluster.commands, self._request.gradient_mb),
            self._request.import_tensorflow,
            self._addresses,
            visit.dialled,
            {name: self._sees(name) for name in self._facts},
            speeds,
        )

    # ---- what is asked of each host alone
    def _questions(self) -> dict[str, Question]:
        directory = RunDirectory(Path(here(), self._request.run.runs_dir, NAME))
        contexts = host_contexts(self._cluster, directory, Names.of(NAME), self._facts, fix_keras=False)
        plan = plan_attempt(self._cluster, self._supposed_spec(), contexts, NAME, attempt=0)
        return {
            host.name: self._question(host, plan.on(host.name)[0], contexts[host.name])
            for host in self._cluster.hosts
            if host.name in self._facts and host.tasks
        }

    def _question(self, host: Host, plan: TaskPlan, context: HostContext) -> Question:
        python = python_of(self._cluster.command_of(plan.task), host, context)
        comes = self._cluster.sync is not None and not host.is_local
        runs_dir = str(PurePath(context.run_dir).parent)
        asked = {
            # what comes along with a run need not be there
            "argv": [python] if comes or brings_training(self._cluster.command_of(plan.task)) else list(plan.argv),
            "addresses": list(self._possible[host.name]),
            "output": runs_dir,
            "trusted": [
                (runs_dir, "--run-dir" if host.is_local else "run_dir", True),
                *([(plan.workdir, "workdir", False)] if comes else []),
            ],
            "marker": self._markers[host.name],
        }
        limit = ANSWER_SECONDS + 2 * LOOK_SECONDS + (IMPORT_SECONDS if self._request.import_tensorflow else 0.0)
        return Question(plan, python, context.python, asked, limit, comes)

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
        seen = self._visit.hosts[name].answers.seen or ()
        return tuple(other for other, marker in self._markers.items() if other != name and marker in seen)

    def _speeds(self) -> dict[tuple[str, str], Speed]:
        """Of the links between machines that reach each other."""
        twins = {other for _, other in same_machines(self._facts)}
        hosts = [name for name in self._addresses if self._ports.get(name) and name not in twins]
        if len(hosts) < 2:
            return {}
        counting = self._visit.count(hosts, LOOK_SECONDS)
        failed = failures(self._visit.dialled)
        unreached = {
            (dial.dialler, name)
            for name, address in self._addresses.items()
            for dial in failed.get((name, address), ())
        }
        speeds: dict[tuple[str, str], Speed] = {}
        each_round = rounds(hosts)
        for pairs in each_round:
            targets = {
                sender: (self._addresses[name], next(iter(self._ports[name].values())))
                for sender, name in pairs
                if name in counting and (sender, name) not in unreached
            }
            measured = self._visit.measure(targets, int(BYTES / len(each_round)), SECONDS / len(each_round))
            speeds |= {pair: measured[pair[0]] for pair in pairs if pair[0] in measured}
        return speeds
