"""What the command line asks for, and the cluster that this means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from launcher.cluster_file import ClusterFile, local_cluster, read_cluster_file
from launcher.errors import UsageError


class Request(NamedTuple):
    """What the command line asks for."""

    cluster: Path | None = None
    workers: int | None = None
    command: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    run_dir: Path = Path("runs")
    resume: str | None = None
    max_restarts: int | None = None
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
    env = {**(request.env or {}), **_switches(request)}
    hosts = tuple(replace(host, env={**host.env, **env}) for host in file.hosts)
    restart = file.restart
    if request.max_restarts is not None:
        restart = restart._replace(max_restarts=request.max_restarts)
    return file._replace(hosts=hosts, restart=restart, command=request.command or file.command)


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
