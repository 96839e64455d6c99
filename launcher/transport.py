"""How a host's agent is reached: a pure function from a host and an argv to the argv that runs it there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

Transport = Callable[[str, Sequence[str]], list[str]]

BOOT = """\
import os
def read(n):
    data = b''
    while len(data) < n:
        more = os.read(0, n - len(data))
        if not more:
            raise SystemExit('tf-launch: the connection closed before the agent had arrived')
        data += more
    return data
exec(compile(read(int(read(8))), 'launch-agent', 'exec'))
"""
"""Reads eight digits and as many bytes of program from stdin, and becomes that program."""


def local(_host: str, argv: Sequence[str]) -> list[str]:
    """Run it here, by the launcher's own Python; -I and -S: nothing of the user's environment reaches the agent."""
    return [sys.executable, "-I", "-S", *argv]


def agent_argv(host: str, transport: Transport = local) -> list[str]:
    """The command that starts an agent on `host`; its program follows over stdin (`agent_source`)."""
    return transport(host, ["-c", BOOT])
