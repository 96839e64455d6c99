"""The conversation with the program that finds out about one host (`launcher.on_host.probe`)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from typing import Any

from launcher.cluster.plan import TaskPlan
from launcher.doctor.answers import Answers
from launcher.hosts.one_host import HostConnection
from launcher.on_host.agent.framing import UnreadableError
from launcher.on_host.examiner.messages import AskProgram, ProgramEnded, ProgramNotRun, ProgramSaid, TellProgram
from launcher.on_host.examiner.questions import MOST
from launcher.wording import signal_name

PROBE = (
    "launcher.on_host.agent.own_directory",
    *(f"launcher.on_host.probe.{name}" for name in ("program", "output", "machine", "importing", "telling")),
)
"""In the order in which they are needed; `main` of the last one is the program."""
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
NO_WORKDIR = "cannot enter the working directory"
"""How an agent begins when it says so."""
HOME = "~"
LONGEST = 300
"""Characters of a program's last words."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and of which Python."""

    plan: TaskPlan
    """Of a worker: its environment and its working directory are the probe's."""
    python: str
    """What runs its workers, if their program is one of Python."""
    spare_python: str
    """What answers for the rest of the host where the other one cannot be started."""
    asked: Mapping[str, Any]
    seconds: float
    workdir_comes: bool = False
    """The start makes the working directory, if it is not there (`sync`)."""

    @property
    def runs_python(self) -> bool:
        """The workers' command is a program of Python."""
        return self.plan.argv[0] == self.python


class Probing:
    """`take` hears the host; nothing here waits."""

    def __init__(self, patient: HostConnection, question: Question) -> None:
        """Ask."""
        self._patient = patient
        self.question = question
        self.refusal = ""
        """Why the workers' Python, or their working directory, cannot be used."""
        self.silence = ""
        """How it came that there is no answer, or not all of it."""
        self._workdirs = [question.plan.workdir, *([HOME] if question.workdir_comes else [])]
        self._ask(question.python, self._workdirs.pop(0))

    def _ask(self, python: str, workdir: str) -> None:
        question = self.question
        self._said = b""
        self.answers = Answers()
        """All that has been told."""
        self.talking = True
        """It may be asked for more."""
        self._word = uuid.uuid4().hex
        asked = {**question.asked, "by_python": question.runs_python, "word": self._word}
        given = f"{sources()!a}\n{json.dumps(asked)}\n".encode()
        argv, env = [python, "-c", BOOT], dict(question.plan.env)
        self._patient.send(AskProgram(argv, env, workdir, question.seconds, given))

    def ask_more(self, **what: Any) -> None:
        """One more thing, after all that is told unasked."""
        self._patient.send(TellProgram(last=False, said=json.dumps(what).encode() + b"\n"))

    def dismiss(self) -> None:
        """Nothing more will be asked; the program puts everything back, and ends."""
        self._patient.send(TellProgram(last=True, said=b""))

    def give_up(self, silence: str) -> None:
        """It has not answered in time, and is not waited for."""
        self.talking, self.silence = False, silence

    def take(self, answer: object) -> None:
        """Hear an answer of the agent."""
        if not self.talking:
            return
        if isinstance(answer, ProgramSaid):
            self._said += answer.data
            if len(self._said) > MOST:
                raise UnreadableError(f"more than {MOST} bytes of answers of its probe")
            answers = Answers.of(self._said, self._word)
            if self.refusal:  # another Python speaks
                answers = replace(answers, python=None, packages=None, program=None, tensorflow=None)
            self.answers = answers
        elif isinstance(answer, ProgramNotRun):
            self._refuse(answer.reason)
        elif isinstance(answer, ProgramEnded):
            self._end(answer)

    def _end(self, told: ProgramEnded) -> None:
        self.talking = False
        how = how_it_ended(told, self.question.seconds)
        if self.answers.python is None and told.in_time and not self.refusal:
            self._refuse(f"{self.question.python}: {how or 'it says nothing; is it a Python?'}")
        else:
            self.silence = how

    def _refuse(self, reason: str) -> None:
        self.talking = False
        if self.refusal:
            self.silence = reason
        elif self._workdirs and reason.startswith(NO_WORKDIR):
            self._ask(self.question.python, self._workdirs.pop(0))
        else:
            self.refusal = reason
            self._ask(self.question.spare_python, HOME)


def sources() -> list[tuple[str, str]]:
    """The probe's modules: name and text."""
    found = []
    for name in PROBE:
        spec = find_spec(name)
        assert spec is not None
        assert isinstance(spec.loader, SourceFileLoader)
        found.append((name, spec.loader.get_data(spec.loader.path).decode()))
    return found


def how_it_ended(told: ProgramEnded, seconds: float) -> str:
    """For a person; empty: as it should."""
    if not told.in_time:
        return f"no answer in {seconds:g} s"
    if told.signal:
        return f"it was ended by {signal_name(told.signal)}"
    lines = [line.strip() for line in told.last_words.decode("utf-8", "replace").splitlines() if line.strip()]
    why = lines[-1][:LONGEST] if lines else f"exit code {told.code}"
    return why if told.code else ""
