"""How an agent is started on a host: a pure function from a host and a line of Python to the argv that runs it there.

The rest is the same everywhere: `opening()` is sent over stdin to a Python that was started with `FIRST_WORDS`.
"""

from __future__ import annotations

import functools
import marshal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from launcher.cluster.defaults import CONNECT_TIMEOUT, LEASE

Transport = Callable[[str, str], list[str]]

ON_HOST = Path(__file__).resolve().parents[1] / "on_host"
AGENT = ("agent",)
"""The packages of the agent's program. It starts with `main` of the module `pair` in the last of them."""
LEFTOVERS = (*AGENT, "leftovers")
"""The packages of the agent that `launch leftovers` sends."""
SSH = "ssh"
"""The system's, with the user's own configuration."""
CONNECTING_AT_ONCE = 32
"""ssh connections that are made at the same time; a jump host on the way of all of them accepts few more."""
UNANSWERED = 3
"""How many of ssh's own keepalives may stay unanswered before ssh closes the connection."""

BOOT = b"""\
import marshal, os, sys
if sys.version_info < (3, 9):
    raise SystemExit('tf-launch: the `python3` of this host is %d.%d; 3.9 or later is needed' % sys.version_info[:2])
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER
def read(length):
    data = b''
    while len(data) < length:
        more = os.read(0, length - len(data))
        if not more:
            raise SystemExit('tf-launch: the connection closed before the agent had arrived')
        data += more
    return data
magic, code, text, pair = (read(int(read(8))) for _ in range(4))
modules = marshal.loads(code if magic == MAGIC_NUMBER else text)
class Sent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return ModuleSpec(name, Sent, is_package=not modules[name]) if name in modules else None
    @staticmethod
    def create_module(spec):
        return None
    @staticmethod
    def exec_module(module):
        body = modules[module.__name__]
        if body:
            code = marshal.loads(body) if magic == MAGIC_NUMBER else compile(body, module.__name__, 'exec')
            exec(code, module.__dict__)
sys.meta_path.insert(0, Sent)
__import__(pair.decode())
sys.modules[pair.decode()].main()
"""
"""Reads the agent's modules from stdin (see `parcel`) and runs `main`. A module costs time only if it is imported."""

FIRST_WORDS = f'import os;d=b"";exec("while len(d)<{len(BOOT)}:d+=os.read(0,{len(BOOT)}-len(d))or os._exit(9)");exec(d)'
"""Reads `BOOT` from stdin and runs it. It has no single quotes, so within them every login shell, even csh, leaves it
as it is."""


def opening(packages: Sequence[str] = AGENT) -> bytes:
    """What turns a Python that was started with `FIRST_WORDS` into an agent; frames follow."""
    with _packing:  # the hosts' threads call this at the same time; with the cache alone, each would pack
        return _packed(packages)


_packing = threading.Lock()


@functools.cache
def _packed(packages: Sequence[str]) -> bytes:
    return BOOT + parcel(packages)


def parcel(packages: Sequence[str]) -> bytes:
    """The modules as `BOOT` reads them: as bytecode for a Python of the launcher's version, and as source for others.

    Eight digits with its length precede each part. Bytecode saves the agent 10 ms of compiling.
    """
    code = dict.fromkeys(
        ["launcher", "launcher.on_host", *(f"launcher.on_host.{package}" for package in packages)], b""
    )
    text = dict(code)
    for package in packages:
        for file in sorted((ON_HOST / package).glob("*.py")):
            if file.name != "__init__.py":
                name = f"launcher.on_host.{package}.{file.stem}"
                loader = SourceFileLoader(name, str(file))
                module = loader.get_code(name)
                assert module is not None
                code[name], text[name] = marshal.dumps(module), loader.get_data(loader.path)
    pair = f"launcher.on_host.{packages[-1]}.pair".encode()
    parts = (MAGIC_NUMBER, marshal.dumps(code), marshal.dumps(text, 2), pair)
    return b"".join(b"%08d%s" % (len(part), part) for part in parts)


def local(_host: str, line: str) -> list[str]:
    """Run it here with the launcher's own Python. -I and -S keep the user's environment out of the agent."""
    return [sys.executable, "-I", "-S", "-c", line]


def over_ssh(options: Sequence[str]) -> Transport:
    """Run it on the host with its `python3`, through the system's ssh with these options."""

    def transport(host: str, line: str) -> list[str]:
        return [SSH, *options, "--", host, f"exec python3 -I -S -c '{line}'"]

    return transport


def ssh_options(connect_timeout: float = CONNECT_TIMEOUT, lease: float = LEASE) -> list[str]:
    """Our options for ssh, on top of the user's configuration. Options of the cluster file come first, so they win.

    - ssh asks no questions (BatchMode). An unknown host key is an error unless the user's configuration accepts it.
    - A shared connection (ControlPath) of the user's is used, but none is left behind.
    - Only the agent runs there: no terminal, no forwarding, no RemoteCommand.
    """
    wanted = {
        "BatchMode": "yes",
        "ConnectTimeout": str(max(1, round(connect_timeout))),
        "ServerAliveInterval": str(max(1, round(lease / UNANSWERED))),
        "ServerAliveCountMax": str(UNANSWERED),
        "ControlMaster": "no",
        "RemoteCommand": "none",
        "ClearAllForwardings": "yes",
        "LogLevel": "INFO",
    }
    return ["-T", "-x", *(word for key, value in wanted.items() for word in ("-o", f"{key}={value}"))]


def agent_argv(host: str, transport: Transport = local) -> list[str]:
    """The command that starts an agent on `host`; `opening()` follows over stdin."""
    return transport(host, FIRST_WORDS)
