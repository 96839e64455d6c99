"""What the command line asks for, and the cluster that this means."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from launcher.cluster_file import NOTHING_ELSE, ClusterFile, Host, local_cluster, read_cluster_file
from launcher.errors import UsageError


class Request(NamedTuple):
    """What the command line asks for."""

    cluster: Path | None = None
    workers: int | None = None
    command: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    python: str | None = None
    run_dir: Path = Path("runs")
    resume: str | None = None
    max_restarts: int | None = None
    stall: float | None = None
    """Seconds."""
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    no_color: bool = False
    no_keras_fix: bool = False
    keep_tf_config: bool = False


def requested_cluster(request: Request) -> ClusterFile:
    """The cluster file with the command line's own wishes in it.

    Raises:
        UsageError: the file has mistakes, or it or the command line asks for what cannot be.
    """
    _refuse_reserved(request.env or {})
    file = read_cluster_file(request.cluster) if request.cluster else local_cluster(request.workers or 1)
    hosts = tuple(_with_wishes(host, request) for host in file.hosts)
    restart = file.restart
    if request.max_restarts is not None:
        restart = restart._replace(max_restarts=request.max_restarts)
    if request.command:
        file = file._replace(command=request.command, per_task=NOTHING_ELSE)
    timeouts = file.timeouts if request.stall is None else file.timeouts._replace(stall=request.stall)
    return file._replace(hosts=hosts, restart=restart, timeouts=timeouts)


def _with_wishes(host: Host, request: Request) -> Host:
    python = request.python and (_here(request.python) if host.is_local else request.python)
    env = {**host.env, **(request.env or {}), **_switches(request)}
    return replace(host, env=env, python=python or host.python)


def _here(python: str) -> str:
    """The `--python` of this machine; a path begins where `launch` was called, wherever the workers start."""
    if "/" not in python:
        return python
    path = Path(python).expanduser().absolute()
    if not os.access(path, os.X_OK) or path.is_dir():
        raise UsageError(f"--python {python}: there is no program {path}; name a Python interpreter")
    return str(path)


def _switches(request: Request) -> dict[str, str]:
    """Options that reach every worker as a variable."""
    return {"LAUNCH_TF_CONFIG": "0"} if request.keep_tf_config else {}


def _refuse_reserved(env: Mapping[str, str]) -> None:
    if not env:
        return
    from launcher.cluster_file.keys import RESERVED

    for key in env:
        for reserved, why in RESERVED.items():
            if re.fullmatch(reserved, key):
                raise UsageError(f"--env {key}: {why}; leave it out")
