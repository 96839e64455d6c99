"""The launchers that start a worker on each of several hosts over ssh, and what else is measured beside them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tools import Program, Tool

SSH = Program("OpenSSH", "ssh", "apt-get install openssh-client openssh-server")
RSYNC = Program("rsync", "rsync", "apt-get install rsync")


def launch_over_ssh(launch: Tool, timeouts: str = "") -> Tool:
    """Our launcher with a cluster file as people write it; `timeouts` is YAML that comes behind the hosts."""

    def arguments(worker: Path, count: int, directory: Path) -> list[str]:
        file = directory / "cluster.yaml"
        file.write_text("hosts:\n" + "".join(f"  - host: {name}\n" for name in names(count)) + timeouts)
        return ["--cluster", str(file), "--run-dir", str(directory / "runs"), "--", str(worker)]

    return replace(launch, arguments=arguments)


def names(count: int) -> list[str]:
    """Of the rig's hosts."""
    return [f"host{number}" for number in range(1, count + 1)]


def pdsh_arguments(worker: Path, count: int, _directory: Path) -> list[str]:
    """All hosts at once."""
    return ["-R", "ssh", "-f", str(count), "-w", ",".join(names(count)), str(worker)]


def mpirun_arguments(worker: Path, count: int, _directory: Path) -> list[str]:
    """Root is fine here; the hosts are `ssh`'s, nobody else knows them."""
    over_ssh = ["--mca", "plm_rsh_agent", "ssh", "--host", ",".join(names(count))]
    return ["--allow-run-as-root", "--tag-output", *over_ssh, "-np", str(count), str(worker)]


PDSH = Tool("pdsh", "pdsh", "apt-get install pdsh", pdsh_arguments, re.compile(rb"host(\d+): "))
MPIRUN = Tool(
    "mpirun", "mpirun", "apt-get install openmpi-bin", mpirun_arguments, re.compile(rb"\[1,(\d+)\]<stdout>: ?")
)
