"""What the command line asks for, and the cluster that this means."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from launcher.caller.working_directory import working_directory
from launcher.cluster.cluster import NOTHING, Cluster, Host
from launcher.cluster.defaults import RUNS_DIR
from launcher.cluster.host_list import listed_cluster, local_cluster
from launcher.cluster.plan import RESERVED, brings_training
from launcher.cluster.redaction import redacted
from launcher.cluster.redaction.commands import redacted_words
from launcher.errors import LaunchError, UsageError

FOR_ONE_LAUNCH = frozenset(
    {"runs_dir", "resume", "take_over", "trust_ssh_options", "dry_run", "as_json", "quiet", "verbose", "no_color"}
    | {"cluster_copy"}
)
"""What an earlier launch asked for of these is no longer of interest when its run goes on."""
_KERAS = {"2": {"TF_USE_LEGACY_KERAS": "1", "LAUNCH_KERAS": "2"}, "3": {"TF_USE_LEGACY_KERAS": "0"}}
"""`--keras`: what TensorFlow chooses its Keras by, and by what the bootstrap checks and completes the choice of 2."""


class Request(NamedTuple):
    """What the command line asks for."""

    cluster: Path | None = None
    workers: int | None = None
    hosts: str | None = None
    """As it was typed: `a:2,b:2`."""
    command: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    python: str | None = None
    runs_dir: Path = Path(RUNS_DIR)
    resume: str | None = None
    take_over: bool = False
    """The user knows that the earlier launcher has gone."""
    trust_ssh_options: bool = False
    """The user wants the options for ssh of a run that was made elsewhere."""
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
    keras: str | None = None
    directory: Path | None = None
    """Where `launch` was called, from which the command's paths begin; None: here."""
    cluster_copy: Path | None = None
    """What is read in place of `cluster`, which is no longer what it was."""

    @property
    def start_on(self) -> dict[str, Any]:
        """The options that say where the workers run, as far as they are given; they exclude each other."""
        said = {"cluster": self.cluster, "hosts": self.hosts, "workers": self.workers}
        return {option: value for option, value in said.items() if value is not None}

    def as_record(self) -> dict[str, Any]:
        """For JSON, all that a run can be gone on with by: secrets are redacted."""
        wishes = {key: value for key, value in self._asdict().items() if key not in FOR_ONE_LAUNCH}
        return wishes | {
            "cluster": self.cluster and str(Path(working_directory(), self.cluster)),
            "env": redacted(self.env or {}),
            "command": redacted_words(self.command),
            "directory": str(Path(working_directory(), self.directory or "")),
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Request:
        """The request that a record was made of, but for its secrets.

        Raises:
            LaunchError: it is none.
        """
        import msgspec  # 8 ms, which only `--resume` and `collect` need

        kinds = {key: kind for key, kind in get_type_hints(cls).items() if key not in FOR_ONE_LAUNCH}
        kept = msgspec.defstruct("Kept", [(key, kind, cls._field_defaults[key]) for key, kind in kinds.items()])
        try:
            told = msgspec.convert(dict(record), kept, dec_hook=lambda kind, value: kind(value))
        except ValueError as error:  # a ValidationError is one
            raise LaunchError(f"`request` in the run's run.json cannot be read: {error}. Start another run.") from error
        return cls(**msgspec.structs.asdict(told))


def requested_cluster(request: Request) -> Cluster:
    """The cluster that is meant, with the command line's own wishes in it.

    Raises:
        UsageError: the file has mistakes, or it or the command line asks for what cannot be.
    """
    _refuse_reserved(request.env or {})
    cluster = _cluster(request)
    hosts = tuple(_with_wishes(host, request) for host in cluster.hosts)
    restart = cluster.restart
    if request.max_restarts is not None:
        restart = restart._replace(max_restarts=request.max_restarts)
    if request.command:
        cluster = cluster._replace(command=request.command, per_task=NOTHING)
    if request.keras == "2" and brings_training(cluster.command):
        raise UsageError(
            "--keras 2: the training program of tf-launch is written for Keras 3; name a command of your own"
        )
    timeouts = cluster.timeouts if request.stall is None else cluster.timeouts._replace(stall=request.stall)
    return cluster._replace(hosts=hosts, restart=restart, timeouts=timeouts)


def _cluster(request: Request) -> Cluster:
    if request.cluster is not None:
        # With it comes PyYAML: 20 ms, which --workers and --hosts start without.
        from launcher.cluster.file.reading import read_cluster_file

        return read_cluster_file(request.cluster, request.cluster_copy)
    return local_cluster(request.workers or 1) if request.hosts is None else listed_cluster(request.hosts)


def _with_wishes(host: Host, request: Request) -> Host:
    python, workdir = request.python, host.workdir
    if host.is_local:
        python = python and _here(python, request.directory, host.env.get("PATH"))
        workdir = workdir or (str(request.directory) if request.directory else None)
    env = {**host.env, **(request.env or {}), **_switches(request)}
    ssh = host.ssh
    if ssh.config and request.directory:
        ssh = ssh._replace(config=str(request.directory / Path(ssh.config).expanduser()))
    return replace(host, env=env, python=python or host.python, workdir=workdir, ssh=ssh)


def _here(python: str, directory: Path | None, search: str | None) -> str:
    """The `--python` of this machine; a path begins where `launch` was called, wherever the workers start."""
    path = str(Path(working_directory(), directory or "", Path(python).expanduser())) if "/" in python else python
    if shutil.which(path, path=search) is None:
        raise UsageError(f"--python {python}: there is no program {path}; name a Python interpreter")
    return path


def _switches(request: Request) -> dict[str, str]:
    """Options that reach every worker as a variable."""
    own_cluster = {"LAUNCH_TF_CONFIG": "0"} if request.keep_tf_config else {}
    return {**own_cluster, **_KERAS.get(request.keras or "", {})}


def _refuse_reserved(env: Mapping[str, str]) -> None:
    for key in env:
        for reserved, why in RESERVED.items():
            if re.fullmatch(reserved, key):
                raise UsageError(f"--env {key}: {why}; leave it out")
