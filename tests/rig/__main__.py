"""Bring hosts up, run a command on the machine from which one logs in to them, take all down again.

In the command `ssh host1` goes to the first host, as the user tb; $RIG_SSH_CONFIG names the configuration that makes it
so, $RIG_HOSTS all the hosts. `fault` breaks and mends a host; alone, it tells how.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from rig import Rig, missing
from rig.fault_command import commands

CHECKOUT = Path(__file__).resolve().parents[2]


def main() -> int:
    """The command's exit code."""
    parser = argparse.ArgumentParser(
        prog="tests/rig/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("hosts", type=int, help="how many")
    parser.add_argument("command", nargs="*", help="after `--`; your shell where there is none")
    given = parser.parse_args()
    if reason := missing():
        print(reason, file=sys.stderr)
        return 3
    signal.signal(signal.SIGINT, lambda *_: None)  # a Ctrl-C is for the command
    command = given.command or [os.environ.get("SHELL", "/bin/sh")]
    with Rig(given.hosts, private=[CHECKOUT]) as rig, commands(rig):
        words = [*rig.login.words, "setpriv", "--pdeathsig", "KILL", *command]
        return subprocess.run(words, env={**os.environ, **rig.environment}).returncode


sys.exit(main())
