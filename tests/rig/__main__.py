"""`tests/rig/run HOSTS [-- COMMAND...]`: bring hosts up, run a command on the login machine, take all down again."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from rig import Rig, missing

CHECKOUT = Path(__file__).resolve().parents[2]


def main() -> int:
    """The command's exit code."""
    parser = argparse.ArgumentParser(prog="tests/rig/run", description=__doc__)
    parser.add_argument("hosts", type=int)
    parser.add_argument("command", nargs="*", help="your shell if there is none; it has $RIG_SSH_CONFIG and $RIG_HOSTS")
    given = parser.parse_args()
    if reason := missing():
        print(reason, file=sys.stderr)
        return 3
    command = given.command or [os.environ.get("SHELL", "/bin/sh")]
    with Rig(given.hosts, private=[CHECKOUT]) as rig:
        words = [*rig.login.words, "setpriv", "--pdeathsig", "KILL", *command]
        return subprocess.run(words, env={**os.environ, **rig.environment}).returncode


sys.exit(main())
