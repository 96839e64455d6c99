"""The program itself: each line on stdin asks for some parts, and each is told as soon as it is known."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from launcher.on_host.agent.own_directory import why_unsafe
from launcher.on_host.probe.machine import gate, gpus, network_card, packages, python, surroundings, tensorflow
from launcher.on_host.probe.output import Output
from launcher.on_host.probe.program import program
from launcher.on_host.probe.throughput import count, measure

if TYPE_CHECKING:
    from collections.abc import Callable

STDOUT, STDERR = 1, 2


def main() -> None:
    """Talk over stdin and stdout, until stdin ends; what others print, sitecustomize for example, goes to stderr."""
    to_launcher = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    word = sys.stdin.readline().strip()
    runs = Output()
    parts: dict[str, Callable[..., Any]] = {
        "python": python,
        "packages": packages,
        "program": program,
        "surroundings": surroundings,
        "gate": gate,
        "network_cards": lambda *addresses: {address: network_card(address) for address in addresses},
        "gpus": gpus,
        "room": runs.room,
        "unsafe": lambda *trusted: [why for path, key, new in trusted if (why := why_unsafe(path, key, is_new=new))],
        "unwritable": runs.tried,
        "seen": runs.seen,
        "unmarked": runs.unmark,
        "tensorflow": tensorflow,
        "counting": count,
        "measured": measure,
    }

    def tell(**what: Any) -> None:
        line = f"\n{word}{json.dumps(what)}\n".encode()
        while line:
            line = line[os.write(to_launcher, line) :]

    try:
        for line in iter(sys.stdin.readline, ""):
            for name, arguments in json.loads(line).items():
                try:
                    tell(**{name: parts[name](*arguments)})
                except Exception as error:  # what fails keeps back nothing else
                    tell(trouble={name: f"{type(error).__name__}: {error}"})
    finally:
        runs.clean()
