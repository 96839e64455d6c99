"""The program itself: each line on stdin asks for some parts, and each is answered as soon as it is known."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from launcher.on_host.probe.machine import gate, gpus, network_cards, packages, python, surroundings, tensorflow
from launcher.on_host.probe.output import Output, unsafe
from launcher.on_host.probe.program import program
from launcher.on_host.probe.throughput import counting, measured

STDOUT, STDERR = 1, 2


def main() -> None:
    """Answer on stdout until stdin ends. What other code prints from now on goes to stderr."""
    to_launcher = os.fdopen(os.dup(STDOUT), "w", encoding="ascii")
    os.dup2(STDERR, STDOUT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    word = sys.stdin.readline().strip()
    runs = Output()
    functions: tuple[Callable[..., Any], ...] = (
        *(python, packages, program, surroundings, tensorflow, gate, network_cards, gpus, unsafe, counting, measured),
        *(runs.room, runs.unwritable, runs.seen, runs.unmarked),
    )
    parts = {each.__name__: each for each in functions}

    def answer(**what: Any) -> None:
        print(f"\n{word}{json.dumps(what, default=vars)}", file=to_launcher, flush=True)

    try:
        for line in iter(sys.stdin.readline, ""):
            for name, arguments in json.loads(line).items():
                try:
                    answer(**{name: parts[name](*arguments)})
                except Exception as error:  # one part that fails must not keep back the others
                    answer(trouble={name: f"{type(error).__name__}: {error}"})
    finally:
        runs.clean()
