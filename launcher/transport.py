"""How a host's agent is reached: a pure function from a host and an argv to the argv that runs it there."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from types import ModuleType

Transport = Callable[[str, Sequence[str]], list[str]]

BOOT = """\
import marshal, os
from _frozen_importlib_external import MAGIC_NUMBER
def read(length):
    data = b''
    while len(data) < length:
        more = os.read(0, length - len(data))
        if not more:
            raise SystemExit('tf-launch: the connection closed before the agent had arrived')
        data += more
    return data
magic, code, text = (read(int(read(8))) for _ in range(3))
exec(marshal.loads(code) if magic == MAGIC_NUMBER else compile(text, 'launch-agent', 'exec'))
"""
"""Reads a program from stdin (see `parcel`) and becomes it."""


def parcel(module: ModuleType) -> bytes:
    """A module as `BOOT` reads it: as bytecode, for a Python of the launcher's own version, and as text for any other.

    Each part has its length in eight digits in front of it. Bytecode saves the agent 10 ms of compiling.
    """
    loader = module.__spec__ and module.__spec__.loader
    assert isinstance(loader, SourceFileLoader)
    parts = (MAGIC_NUMBER, marshal.dumps(loader.get_code(module.__name__)), loader.get_data(loader.path))
    return b"".join(b"%08d%s" % (len(part), part) for part in parts)


def local(_host: str, argv: Sequence[str]) -> list[str]:
    """Run it here, by the launcher's own Python; -I and -S: nothing of the user's environment reaches the agent."""
    return [sys.executable, "-I", "-S", *argv]


def agent_argv(host: str, transport: Transport = local) -> list[str]:
    """The command that starts an agent on `host`; its program follows over stdin (`parcel`)."""
    return transport(host, ["-c", BOOT])
