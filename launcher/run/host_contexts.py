"""What a plan must know of each host: this machine is asked, a host behind ssh has told it (`HostFacts`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from launcher.caller.working_directory import working_directory
from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.defaults import REMOTE_RUNS_DIR
from launcher.cluster.plan import HostContext, brings_training
from launcher.hosts.access import chosen_options
from launcher.hosts.facts import HostFacts
from launcher.run.python_choice import local_python
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.state import RunHost

PACKAGE = Path(__file__).resolve().parents[1]
TRAINING = PACKAGE.parent / "training"
BOOTSTRAP = PACKAGE / "on_host" / "bootstrap"
KERAS_FIX = TRAINING / "keras_fix"
PROGRAM = "program"
"""The training program, where that is what runs, below what we bring along."""
OUTPUT = "output"
REMOTE_PYTHON = "python3"
UNTOLD = HostFacts()
"""For a dry run, which asks no host: paths begin with ~."""


class Names(NamedTuple):
    """What is called by random digits: nobody can know it before, and make such a directory first."""

    run_id: str
    """The run, the same whenever it goes on, and its directory on hosts behind ssh."""
    support: str
    """What we bring along, in the run's directory: new with each launch, so that nobody has put anything else there."""

    @classmethod
    def of(cls, run: str, known: str = "", digits: Callable[[], str] = lambda: os.urandom(8).hex()) -> Names:
        """Names for one launch. `run`: the name of its directory here; `known`: its run id, if it has one already."""
        return cls(known or f"{run}-{digits()}", f"support-{digits()}")


def host_contexts(
    cluster: Cluster, directory: RunDirectory, names: Names, facts: Mapping[str, HostFacts], *, fix_keras: bool
) -> dict[str, HostContext]:
    """A context for each host of the cluster; `directory` is the run's own on this machine."""
    return {
        host.name: _local_context(directory, host.python, fix_keras)
        if host.is_local
        else _remote_context(host, names, facts.get(host.name, UNTOLD), fix_keras, brings_training(*cluster.commands))
        for host in cluster.hosts
    }


def run_hosts(cluster: Cluster, contexts: Mapping[str, HostContext]) -> tuple[RunHost, ...]:
    """What is written down of the hosts, so that what the run leaves there can be found again."""
    return tuple(
        RunHost(
            name=host.name,
            tasks=tuple(task.slug for task in host.tasks),
            run_dir=contexts[host.name].run_dir,
            output_dir=contexts[host.name].output_dir,
            ssh_options=() if host.is_local else tuple(chosen_options(host)),
            connect_timeout=host.ssh.connect_timeout,
        )
        for host in cluster.hosts
    )


def _local_context(directory: RunDirectory, python: str | None, fix_keras: bool) -> HostContext:
    return HostContext(
        python=local_python(os.environ).path,
        workdir=working_directory(),
        cpus=len(os.sched_getaffinity(0)),
        output_dir=str(directory.chief),
        run_dir=str(directory.path),
        environment=os.environ,
        bootstrap=str(BOOTSTRAP),
        keras_fix=str(KERAS_FIX) if fix_keras and KERAS_FIX.is_dir() else None,
        training_python=sys.executable,
        program=str(TRAINING.parent) if python is None else None,
    )


def _remote_context(host: Host, names: Names, facts: HostFacts, fix_keras: bool, training: bool) -> HostContext:
    run_dir = expanded(remote_run_dir(host, names), facts.home)
    support = f"{run_dir}/{names.support}"
    return HostContext(
        python=REMOTE_PYTHON,
        workdir=facts.home,
        cpus=facts.cpus,
        output_dir=f"{run_dir}/{OUTPUT}",
        run_dir=run_dir,
        environment=facts.environment,
        bootstrap=support,
        keras_fix=f"{support}/{KERAS_FIX.name}" if fix_keras and KERAS_FIX.is_dir() else None,
        program=f"{support}/{PROGRAM}" if training else None,
    )


def remote_run_dir(host: Host, names: Names) -> str:
    """A run's directory on a host behind ssh."""
    return f"{(host.runs_dir or REMOTE_RUNS_DIR).rstrip('/')}/{names.run_id}"


def expanded(path: str, home: str) -> str:
    """The path with a `~` in front replaced; a relative one begins at the home directory."""
    first, slash, rest = path.partition("/")
    if first == "~":
        return f"{home}{slash}{rest}"
    return path if path.startswith("/") else f"{home}/{path}"


def support_files(names: Names, *, fix_keras: bool, training: bool) -> dict[str, bytes]:
    """What a host behind ssh needs of ours beside the agent: path below the run's directory -> content."""
    ours = {path.name: path for path in sorted(BOOTSTRAP.glob("*.py"))}
    if fix_keras:
        ours |= {f"{KERAS_FIX.name}/{path.name}": path for path in sorted(KERAS_FIX.glob("*.py"))}
    files = {f"{names.support}/{name}": path.read_bytes() for name, path in ours.items()}
    if training:
        for path in sorted(TRAINING.rglob("*")):
            if path.is_file() and path.suffix in (".py", ".npz"):
                files[f"{names.support}/{PROGRAM}/training/{path.relative_to(TRAINING)}"] = path.read_bytes()
    return files
