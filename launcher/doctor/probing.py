"""The conversation with one host, and with the programs that find out about it (`launcher.on_host.probe`)."""

from __future__ import annotations

import inspect
import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from launcher.cluster.cluster import Host
from launcher.cluster.plan import TaskPlan
from launcher.doctor.examination import Dial, HostExamination
from launcher.hosts import events
from launcher.hosts.facts import HostFacts
from launcher.hosts.ssh_complaint import Complaint
from launcher.on_host.agent import messages
from launcher.on_host.agent.framing import UnreadableError, decoded
from launcher.on_host.agent.programs import MOST
from launcher.on_host.probe.answers import Answers, Speed
from launcher.wording import signal_name

AGENT = ("limits", "processes", "resolving", "sockets", "gate_program", "reach", "gate", "facts", "own_directory")
PROBE = ("answers", "program", "output", "machine", "throughput", "main")
"""The modules of a probe, in the order in which they import each other, behind those that it needs of the agent."""
BOOT = """\
import sys
if sys.version_info < (3, 9):
    sys.exit("it is Python %d.%d; 3.9 or later is needed" % sys.version_info[:2])
sys.path[:] = [path for path in sys.path if path]  # a module of the working directory could hide one of Python's own
for name, text in eval(sys.stdin.readline()):
    module = sys.modules[name] = type(sys)(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main()
"""
"""Reads the modules from stdin, and runs `main` of the last one."""
HOST, WORKER = "host", "worker"
"""The two probes of a host: one runs in its agent's own Python, one in the Python of its workers."""
HOME = "~"
OWN_PYTHON = ("/proc/self/exe", "-I", "-S")
"""The Python that runs the agent, as a child of the agent finds it, whatever the workers' environment says."""
NO_WORKDIR = "cannot enter the working directory"
"""How the agent's reason begins if that directory is missing."""
LONGEST = 300
"""Characters that are shown of a program's last line."""
Parts = Mapping[str, list[Any]]
"""What a probe is asked: the names of its functions, each with the arguments."""
OfProgram = messages.ProgramNotRun | messages.ProgramSaid | messages.ProgramEnded
"""What an agent says of a program."""


@dataclass(eq=False)
class Probe:
    """A program on a host: what it was asked, what it has answered, how it ended. Nothing here waits."""

    name: str
    send: Callable[[messages.Command], None]
    python: Sequence[str]
    """How its command line begins."""
    workdirs: list[str]
    """It runs in the first of these that exists."""
    env: Mapping[str, str]
    answers: dict[str, Any] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)
    """Parts that could not be found out, and why."""
    awaited: set[str] = field(default_factory=set)
    """Parts that it was asked for and has not answered yet."""
    refusal: str = ""
    """Why it does not run: it cannot be started, or what was started is no Python."""
    silence: str = ""
    """Why answers are missing, if it did run."""

    def __post_init__(self) -> None:
        self._asked = b""
        self._start()

    def _start(self) -> None:
        self.talking = True
        """It can be asked for more."""
        self._word = uuid.uuid4().hex.encode()
        self._said, self._came = b"", 0
        given = f"{sources()!a}\n".encode() + self._word + b"\n" + self._asked
        self.send(
            messages.AskProgram(self.name, [*self.python, "-c", BOOT], dict(self.env), self.workdirs.pop(0), given)
        )

    def ask(self, parts: Parts) -> None:
        """Have it find out these parts, one after the other."""
        line = json.dumps(parts).encode() + b"\n"
        self._asked += line
        self.awaited |= parts.keys()
        if self.talking:
            self.send(messages.TellProgram(self.name, False, line))

    def dismiss(self) -> None:
        """Tell it that nothing more will be asked. It removes what it has made, and ends."""
        if self.talking:
            self.send(messages.TellProgram(self.name, True, b""))

    @property
    def has_answered(self) -> bool:
        """No more answers are to come."""
        return not self.talking or not self.awaited

    def give_up(self, seconds: float) -> None:
        """Stop listening: it has not answered within this time."""
        self.talking, self.silence = False, f"no answer in {seconds:g} s"

    def hear(self, message: OfProgram) -> None:
        """Take in a message of the agent about it.

        Raises:
            UnreadableError, msgspec.ValidationError: no probe of ours answers that.
        """
        match message:
            case messages.ProgramSaid(_, data) if self.talking:
                self._hear_lines(data)
            case messages.ProgramNotRun(_, reason) if self.workdirs and reason.startswith(NO_WORKDIR):
                self._start()
            case messages.ProgramNotRun(_, reason):
                self.talking, self.refusal = False, reason
            case messages.ProgramEnded(_, code, number, last_words) if self.talking:
                self._end(how_it_ended(code, number, last_words.decode("utf-8", "replace")))

    def _end(self, how: str) -> None:
        self.talking = False
        if self.answers:
            self.silence = how
        else:
            self.refusal = f"{self.python[0]}: {how or 'it says nothing; is it a Python?'}"

    def _hear_lines(self, data: bytes) -> None:
        """Read lines of JSON that begin with the word. What others print, such as a sitecustomize, is skipped."""
        self._came += len(data)
        if self._came > MOST:
            raise UnreadableError(f"more than {MOST} bytes of answers of its probe")
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            if line.startswith(self._word):
                answers = decoded(line[len(self._word) :])
                trouble = msgspec.convert(answers.pop("trouble", {}), dict[str, str])
                self.answers |= answers
                self.trouble |= trouble
                self.awaited -= answers.keys() | trouble.keys()


@cache
def sources() -> list[tuple[str, str]]:
    """The probe's modules: name and text."""
    packages = {"agent": AGENT, "probe": PROBE}
    names = [f"launcher.on_host.{package}.{name}" for package, own in packages.items() for name in own]
    return [(name, inspect.getsource(import_module(name))) for name in names]


def how_it_ended(code: int | None, number: int | None, last_words: str) -> str:
    """For a person; empty if it ended as it should."""
    if number:
        return f"it was ended by {signal_name(number)}"
    lines = [line.strip() for line in last_words.splitlines() if line.strip()]
    why = lines[-1][:LONGEST] if lines else f"exit code {code}"
    return why if code else ""


class ExaminedHost:
    """One host: what it was asked, and what it has answered so far."""

    def __init__(self, host: Host, send: Callable[[messages.Command], None]) -> None:
        self.send = send
        self.found = HostExamination(host)
        self.dials: list[Dial] = []
        self._dialled: Mapping[str, str] | None = None
        self.probes: dict[str, Probe] = {}

    @property
    def is_ready(self) -> bool:
        """It has sent its facts, and has ports for its workers or said why not."""
        has_ports = self.found.ports or self.found.no_ports or not self.found.host.tasks
        return self.found.facts is not None and bool(has_ports)

    @property
    def has_answered(self) -> bool:
        """No more answers are to come."""
        is_dialling = self.dials and self._dialled is None
        return not is_dialling and all(probe.has_answered for probe in self.probes.values())

    @property
    def dialled(self) -> dict[Dial, str]:
        """What came of each of its dials: empty if it got through, else why not."""
        return {self.dials[int(number)]: why for number, why in (self._dialled or {}).items()}

    @property
    def counts(self) -> bool:
        """It counts what others send to its port, so that they can measure how fast that is."""
        return "counting" in self.probes[HOST].answers

    @property
    def speed(self) -> Speed:
        """Of the link that it was asked to measure last."""
        measured = None if "measured" in self.probes[HOST].awaited else self.found.answers.measured
        return measured or Speed(reason="no answer")

    def begin(self, plan: TaskPlan, python: str, workdir_comes: bool) -> None:
        """Start its probes. `workdir_comes`: the working directory may be missing, since a run brings it (`sync`)."""
        self.found = replace(self.found, plan=plan, runs_python=plan.argv[0] == python)
        workdirs = [plan.workdir, *([HOME] if workdir_comes else [])]
        self.probes = {
            HOST: Probe(HOST, self.send, OWN_PYTHON, [HOME], plan.env),
            WORKER: Probe(WORKER, self.send, [python], workdirs, plan.env),
        }

    def hear(self, event: events.Event) -> None:
        """Take in what it says, or what became of its connection.

        Raises:
            UnreadableError: no probe of ours answers that.
        """
        match event:
            case events.HostReady(_, told):
                self.found = replace(self.found, facts=HostFacts.of(told, time.time()))
            case events.PortsReserved(_, ports):
                self.found = replace(self.found, ports=ports)
            case events.ReservationFailed(_, reason):
                self.found = replace(self.found, no_ports=reason)
            case events.Dialled(_, results):
                self._dialled = results
            case events.HostLost(_, reason, remedy):
                self.complain(Complaint(reason, remedy))
            case events.Answer(_, message) if isinstance(message, OfProgram):
                self._hear_probe(message)

    def _hear_probe(self, message: OfProgram) -> None:
        if message.name not in self.probes:
            raise UnreadableError("news of a program that was not started there")
        try:
            self.probes[message.name].hear(message)
            self.found = replace(self.found, answers=self._answers())
        except msgspec.ValidationError as error:
            raise UnreadableError(f"an answer of its probe: {error}") from error

    def complain(self, complaint: Complaint) -> None:
        """Note why there is no connection to it. The first reason counts."""
        self.found = replace(self.found, complaint=self.found.complaint or complaint)

    def _answers(self) -> Answers:
        host, worker = self.probes[HOST], self.probes[WORKER]
        trouble = (*host.trouble.items(), *worker.trouble.items())
        return msgspec.convert({**host.answers, **worker.answers, "trouble": trouble}, Answers)

    def examination(self) -> HostExamination:
        """All that was found out about it, once nothing more comes."""
        if not self.probes:
            return self.found
        host, worker = self.probes[HOST], self.probes[WORKER]
        silence = host.refusal or host.silence or worker.silence
        return replace(self.found, refusal=worker.refusal, silence=silence)
