"""A Python program run on another host, over ssh with the user's own configuration. The host needs only `python3`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

NO_SSH = "`ssh` is not installed on this machine: install OpenSSH's client (Debian, Ubuntu: apt install openssh-client)"
"""What to say where `command` names a program that is not there."""
ON_HOST = Path(__file__).resolve().parent / "on_host"
OPTIONS = ("-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ClearAllForwardings=yes")


def program(name: str) -> bytes:
    """The text of a program for hosts."""
    return (ON_HOST / f"{name}.py").read_bytes()


def command(host: str, text: bytes, options: Sequence[str] = OPTIONS) -> list[str]:
    """The command that runs a program on a host: the program and then its input follow over stdin.

    In single quotes every login shell, be it fish or csh, takes the words as they are.
    """
    words = f'import sys;sys.argv=["tf-launch"];exec(sys.stdin.buffer.read({len(text)}))'
    return ["ssh", *options, "--", host, f"exec python3 -I -S -c '{words}'"]
