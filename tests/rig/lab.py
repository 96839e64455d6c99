"""A lab: a sealed part of this machine, in which hosts live. No packet leaves it, and nothing in it outlives it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rig.requirements import PATH, unshare

ENVIRONMENT = {"PATH": PATH, "LC_ALL": "C"}

STAY = """
set -e
read -r pid _ </proc/self/stat  # the number outside: this /proc is still the machine's
ip link set lo up
echo "$pid"
read -r _ || :  # the lab lives as long as the pipe
"""

THEN_REMOVE = '"$@"; rm -rf -- "$0"'


class RigError(Exception):
    """The rig could not do what was asked of it."""


def checked(argv: Sequence[str], given: str = "") -> str:
    """What a command says, once it has succeeded."""
    done = subprocess.run(argv, input=given, capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode:
        raise RigError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr.strip()}\n{given}")
    return done.stdout


FILES = {"mount": "mnt"}
"""A namespace's file in /proc, where it is not named like the option."""


def namespaces_of(pid: int, *kinds: str) -> tuple[str, ...]:
    """The words that start a command in these namespaces of a process. It takes their place, unless one is `pid`."""
    user = () if os.geteuid() == 0 else ("user",)
    return ("nsenter", *(f"--{kind}=/proc/{pid}/ns/{FILES.get(kind, kind)}" for kind in (*user, *kinds)), "--")


class Lab:
    """Ends when it is closed, and however this process ends: its first process reads a pipe whose other end is here.

    Its directory ends with it.
    """

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="rig-"))
        self._process = subprocess.Popen(
            ["sh", "-c", THEN_REMOVE, str(self.directory), *unshare(), "bash", "-c", STAY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            start_new_session=True,  # a Ctrl-C is for the tests
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise RigError(f"no lab: {self._process.communicate()[1].strip()}")
        self.pid = int(said)
        """Of its first process."""
        self.on_login_machine = namespaces_of(self.pid, "net")
        """The words that start a command on the machine where people log in: this one, but for the network."""
        self.inside = namespaces_of(self.pid, "net", "mount", "pid")
        """The words that start what must not outlive the lab."""

    def set_up_network(self, *lines: str) -> None:
        """Run these commands of `ip` on the login machine."""
        checked([*self.on_login_machine, "ip", "-batch", "-"], "\n".join(lines) + "\n")

    def close(self) -> None:
        """Return once nothing of it is left."""
        self._process.communicate()
