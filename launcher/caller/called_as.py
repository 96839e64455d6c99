"""The `launch` command as it was called, for messages that tell a person what to type."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

from launcher.caller.working_directory import working_directory

WRAPPER = "LAUNCH_CALLED_AS"
"""Set by scripts/launch, which starts this Python: the name that it was called by."""


def take_name_from_wrapper() -> None:
    """Move that name to where a program's name stands, so that nobody inherits the variable."""
    sys.argv[0] = os.environ.pop(WRAPPER, sys.argv[0])


def launch_command() -> str:
    """`scripts/launch`, `launch` where PATH has it, or `python -m launcher`: to be typed in this directory."""
    if not sys.argv[0].endswith("__main__.py"):
        return _typed(sys.argv[0])
    python = _typed(sys.orig_argv[0])
    return f"{python} -m launcher" if "-m" in sys.orig_argv else f"{python} {_typed(sys.argv[0])}"


def _typed(program: str) -> str:
    """As short as it can be typed here."""
    name = program.rpartition("/")[2]
    return shlex.quote(name if shutil.which(name) == program else _below_here(program))


def _below_here(program: str) -> str:
    try:
        relative = program.removeprefix(f"{working_directory()}/")
    except OSError:  # the working directory was gone from the beginning
        return program
    return relative if "/" in relative else f"./{relative}"
