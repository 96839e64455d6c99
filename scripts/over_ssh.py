"""A Python program run on another host, over ssh with the user's own configuration. The host needs only `python3`."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

ON_HOST = Path(__file__).resolve().parent / "on_host"
MOST_PRINTED = 16 << 20
"""Bytes that may come from a host at most; an answer is shorter."""


def program(name: str) -> bytes:
    """The text of a program for hosts."""
    return (ON_HOST / f"{name}.py").read_bytes()


def command(host: str, text: bytes, options: Sequence[str]) -> list[str]:
    """The command that runs a program on a host: the program and then its input follow over stdin.

    In single quotes every login shell, be it fish or csh, takes the words as they are.
    """
    words = f'import sys;sys.argv=["tf-launch"];exec(sys.stdin.buffer.read({len(text)}))'
    return ["ssh", *options, "--", host, f"exec python3 -I -S -c '{words}'"]


def bounded(argv: Sequence[str]) -> list[str]:
    """The same command, which the kernel ends where a file that it prints to becomes too long."""
    limits = f"ulimit -c 0 2>/dev/null; ulimit -f {MOST_PRINTED // 512} 2>/dev/null"
    return ["sh", "-c", f'{limits}; exec "$@"', "sh", *argv]


def went_too_far(process: subprocess.Popen[bytes]) -> bool:
    """Whether that is how it ended, or what a shell passes on of it."""
    return process.wait() in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ)
