"""The conversation with a program that finds out about one host (`launcher.on_host.probe`)."""

from __future__ import annotations

import inspect
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from launcher.on_host.agent.framing import UnreadableError, decoded
from launcher.on_host.agent.messages import (
    AskProgram,
    Command,
    Event,
    ProgramEnded,
    ProgramNotRun,
    ProgramSaid,
    TellProgram,
)
from launcher.on_host.agent.programs import MOST
from launcher.wording import signal_name

OF_AGENT = ("limits", "processes", "resolving", "sockets", "gate_program", "reach", "gate", "facts", "own_directory")
PROBE = (
    *(f"launcher.on_host.agent.{name}" for name in OF_AGENT),
    *(
        f"launcher.on_host.probe.{name}"
        for name in ("answers", "program", "output", "machine", "throughput", "telling")
    ),
)
"""Its modules, in the order in which they are needed; `main` of the last one is the program."""
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
"""How an agent's reason begins where there is no such directory."""
LONGEST = 300
"""Characters of a program's last words."""
Parts = Mapping[str, list[Any]]
"""What a probe is asked for, each part with its arguments."""


@dataclass(eq=False)
class Probe:
    """A program on a host: what it was asked, what it has told, how it ended. Nothing here waits."""

    name: str
    send: Callable[[Command], None]
    python: Sequence[str]
    """How its command line begins."""
    workdirs: list[str]
    """It runs in the first of these that there is."""
    env: Mapping[str, str]
    told: dict[str, Any] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)
    """Parts that could not be found out, and why."""
    awaited: set[str] = field(default_factory=set)
    """Parts that it was asked for and has not told yet."""
    refusal: str = ""
    """Why there is no such program: it cannot be started, or is no Python."""
    silence: str = ""
    """How it came that there is no answer, or not all of it."""

    def __post_init__(self) -> None:
        self._asked = b""
        self._start()

    def _start(self) -> None:
        self.talking = True
        """It may be asked for more."""
        self._word = uuid.uuid4().hex.encode()
        self._said, self._came = b"", 0
        given = f"{sources()!a}\n".encode() + self._word + b"\n" + self._asked
        self.send(AskProgram(self.name, [*self.python, "-c", BOOT], dict(self.env), self.workdirs.pop(0), given))

    def ask(self, parts: Parts) -> None:
        """Let it find out these parts, one after the other."""
        line = json.dumps(parts).encode() + b"\n"
        self._asked += line
        self.awaited |= parts.keys()
        if self.talking:
            self.send(TellProgram(self.name, False, line))

    def dismiss(self) -> None:
        """Nothing more will be asked; the program puts everything back, and ends."""
        if self.talking:
            self.send(TellProgram(self.name, True, b""))

    @property
    def has_answered(self) -> bool:
        """All that it was asked for is told, or will not be."""
        return not self.talking or not self.awaited

    def give_up(self, seconds: float) -> None:
        """It has not answered in time, and is not waited for any more."""
        self.talking, self.silence = False, f"no answer in {seconds:g} s"

    def hear(self, message: Event) -> None:
        """One of its agent's messages.

        Raises:
            UnreadableError, msgspec.ValidationError: it is not what a probe of ours tells.
        """
        match message:
            case ProgramSaid(_, data) if self.talking:
                self._hear_lines(data)
            case ProgramNotRun(_, reason) if self.workdirs and reason.startswith(NO_WORKDIR):
                self._start()
            case ProgramNotRun(_, reason):
                self.talking, self.refusal = False, reason
            case ProgramEnded(_, code, number, last_words) if self.talking:
                self._end(how_it_ended(code, number, last_words.decode("utf-8", "replace")))

    def _end(self, how: str) -> None:
        self.talking = False
        if self.told:
            self.silence = how
        else:
            self.refusal = f"{self.python[0]}: {how or 'it says nothing; is it a Python?'}"

    def _hear_lines(self, data: bytes) -> None:
        """Whole lines of JSON behind the word. What others print, a sitecustomize for example, is passed over."""
        self._came += len(data)
        if self._came > MOST:
            raise UnreadableError(f"more than {MOST} bytes of answers of its probe")
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            if line.startswith(self._word):
                told = decoded(line[len(self._word) :])
                trouble = msgspec.convert(told.pop("trouble", {}), dict[str, str])
                self.told |= told
                self.trouble |= trouble
                self.awaited -= told.keys() | trouble.keys()


@cache
def sources() -> list[tuple[str, str]]:
    """The probe's modules: name and text."""
    return [(name, inspect.getsource(import_module(name))) for name in PROBE]


def how_it_ended(code: int | None, number: int | None, last_words: str) -> str:
    """In words for a person; none where it ended as it should."""
    if number:
        return f"it was ended by {signal_name(number)}"
    lines = [line.strip() for line in last_words.splitlines() if line.strip()]
    why = lines[-1][:LONGEST] if lines else f"exit code {code}"
    return why if code else ""
