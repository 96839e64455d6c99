"""The program itself: tell what is known at once, then answer until nobody asks any more."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from launcher.on_host.agent.own_directory import why_unsafe
from launcher.on_host.probe.importing import tensorflow
from launcher.on_host.probe.machine import gpus, network_card, packages, python, surroundings
from launcher.on_host.probe.output import Output
from launcher.on_host.probe.program import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STDOUT, STDERR = 1, 2


class Teller:
    """One conversation: JSON lines in, JSON lines out."""

    def __init__(self, question: dict[str, Any], to_launcher: int) -> None:
        self._question = question
        self._to_launcher = to_launcher
        self.output = Output(question["output"])

    def tell(self, **what: Any) -> None:
        """One line."""
        line = f"\n{self._question['word']}{json.dumps(what)}\n".encode()
        while line:
            line = line[os.write(self._to_launcher, line) :]

    def tell_all(self) -> None:
        """What can be known without other hosts. What fails keeps back nothing else."""
        asked = self._question
        parts: dict[str, Callable[[], Any]] = {
            "python": python,
            "packages": packages,
            "program": lambda: program(asked["argv"], asked["by_python"]),
            "surroundings": surroundings,
            "network_cards": lambda: {address: network_card(address) for address in asked["addresses"]},
            "gpus": gpus,
            "room": self.output.room,
            "unsafe": lambda: [why for place in asked["trusted"] if (why := why_unsafe(*place[:2], is_new=place[2]))],
            "unwritable": lambda: self.output.tried(asked["marker"]),
        }
        for name, part in parts.items():
            try:
                self.tell(**{name: part()})
            except Exception as error:
                self.tell(trouble=[name, f"{type(error).__name__}: {error}"])
        self.tell(all_told=True)

    def answer(self, lines: Iterator[str]) -> None:
        """Until the launcher closes its end, or goes."""
        for line in lines:
            asked = json.loads(line)
            if "markers" in asked:
                self.tell(seen=self.output.seen(asked["markers"]))
            elif "unmark" in asked:
                self.output.unmark()
                self.tell(unmarked=True)
            else:
                self.tell(tensorflow=tensorflow())


def main() -> None:
    """Talk over stdin and stdout; what others print, sitecustomize for example, goes to stderr."""
    to_launcher = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    teller = Teller(json.loads(sys.stdin.readline()), to_launcher)
    try:
        teller.tell_all()
        teller.answer(iter(sys.stdin.readline, ""))
    finally:
        teller.output.clean()
