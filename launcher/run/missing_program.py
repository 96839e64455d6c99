"""A program that surely is not there is told of before anything is started."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from launcher.caller.working_directory import working_directory
from launcher.cluster import placeholders
from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.defaults import PROJECTS
from launcher.cluster.plan import PYTHONS
from launcher.errors import UsageError

_FLAG = re.compile(r"-[bBdEiIOPqsSuvx]+")
"""Options of Python that take no value, so that the next word may be the script."""


class _Place(NamedTuple):
    """Where a host's tasks look for their program, as far as that can be seen from here."""

    directory: Path
    meaning: str


def refuse_missing_programs(cluster: Cluster) -> None:
    """Look for the file that each command names: for tasks of this machine, and in the project that `sync` sends.

    What a host behind ssh has already cannot be seen from here, so a `workdir` that the user has named there may hold
    more than the project. A command that is looked up in PATH, or handed to a shell, is not looked for either.

    Raises:
        UsageError: one is not there; the message has the nearest name that is.
    """
    for host in cluster.hosts:
        place = _place(host, cluster)
        if place is not None:
            for name in dict.fromkeys(_named_files(host, cluster)):
                _refuse_if_missing(name, place)


def _place(host: Host, cluster: Cluster) -> _Place | None:
    if host.is_local:
        directory = Path(working_directory(), Path(host.workdir or "").expanduser())
        return _Place(directory, "where the tasks of localhost start") if directory.is_dir() else None
    if cluster.sync is not None and (host.workdir or "").startswith(PROJECTS):
        return _Place(cluster.sync.directory, "the project that `sync` sends")
    return None


def _named_files(host: Host, cluster: Cluster) -> Iterator[str]:
    for task in host.tasks:
        name = program_file(cluster.command_of(task))
        if name is not None and (host.is_local or not _leads_elsewhere(name)):
            yield name


def _leads_elsewhere(name: str) -> bool:
    return name.startswith(("/", "~")) or ".." in Path(name).parts


def program_file(command: Sequence[str]) -> str | None:
    """The file that a command cannot do without, if it names one: a script of Python, or a program with a path."""
    program, *arguments = command
    name: str | None = program if "/" in program else None
    if program.endswith(".py"):
        name = program
    elif program.rpartition("/")[2].startswith(PYTHONS):
        first = next((word for word in arguments if not _FLAG.fullmatch(word)), "-")
        name = first if not first.startswith("-") else None
    return None if name is None or placeholders.any_in([name]) else name


def _refuse_if_missing(name: str, place: _Place) -> None:
    path = place.directory / os.path.expanduser(name)  # noqa: PTH111 - as the agent does it: `~nobody/x` stays
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        there = f"there is no such file in {place.directory}, {place.meaning}" if path != Path(name) else "no such file"
        raise UsageError(f"{name}: {there}{_advice(path, name)}") from None
    except OSError:
        return  # who starts it will say what is wrong


def _advice(path: Path, name: str) -> str:
    try:
        names = sorted(each.name for each in path.parent.iterdir())
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {name.removesuffix(path.name)}{near[0]}?" if near else ""
