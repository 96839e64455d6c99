"""Which Python of this machine runs a program that has `python` in front, and whose it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from launcher.cluster.cluster import Cluster
from launcher.cluster.plan import brings_training, means_python
from launcher.run_directory.whole_files import relative

ENVIRONMENTS = {
    "VIRTUAL_ENV": "the active virtual environment",
    "CONDA_PREFIX": "the active conda environment",
}
"""What an activated environment sets, the one that wins first."""


class LocalPython(NamedTuple):
    """An interpreter of this machine."""

    path: str
    whose: str
    """For a person."""


def local_python(environment: Mapping[str, str]) -> LocalPython:
    """The Python of the environment that is active, as in the user's shell; else the one that runs the launcher."""
    for variable, whose in ENVIRONMENTS.items():
        python = f"{environment.get(variable)}/bin/python"
        if environment.get(variable) and os.access(python, os.X_OK):
            return LocalPython(python, whose)
    return LocalPython(sys.executable, "tf-launch's own")


def python_note(cluster: Cluster) -> str:
    """What stands behind `localhost` at the start: which Python runs the program, if nothing else says so."""
    local = next((host for host in cluster.hosts if host.is_local), None)
    if local is None or local.python is not None:
        return ""
    commands = {cluster.command_of(task) for task in local.tasks}
    if not any(means_python(command) and not brings_training(command) for command in commands):
        return ""
    path, whose = local_python(os.environ)
    return f" with {relative(path)} ({whose})"
