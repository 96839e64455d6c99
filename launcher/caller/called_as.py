"""The `launch` command as the user typed it, for messages that suggest a command."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

from launcher.caller.working_directory import working_directory

WRAPPER = "LAUNCH_CALLED_AS"
"""Set by scripts/launch, which starts this Python: the name under which it was called."""


def restore_name() -> None:
    """Move that name from the environment, which child processes would inherit, to `sys.argv[0]`."""
    sys.argv[0] = os.environ.pop(WRAPPER, sys.argv[0])


def launch_command() -> str:
    """`scripts/launch`, `launch` if PATH has it, or `python -m launcher`, as it can be typed in this directory."""
    if not sys.argv[0].endswith("__main__.py"):
        return _typed(sys.argv[0])
    python = _typed(sys.orig_argv[0])
    return f"{python} -m launcher" if "-m" in sys.orig_argv else f"{python} {_typed(sys.argv[0])}"


def _typed(program: str) -> str:
    """The shortest form of a program that works in this directory."""
    name = program.rpartition("/")[2]
    return shlex.quote(name if shutil.which(name) == program else _below_here(program))


def _below_here(program: str) -> str:
    try:
        relative = program.removeprefix(f"{working_directory()}/")
    except OSError:  # the working directory was gone from the beginning
        return program
    return relative if "/" in relative else f"./{relative}"
