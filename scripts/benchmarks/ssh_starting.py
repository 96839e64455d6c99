"""From exec of a launcher to its workers' first instruction on hosts behind ssh, every connection a new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmark import Benchmark, Goal, Quantity, Subject, Tools
from ssh_hosts import WORKER, Rig, hosts_up, meeting_on, obstacle, on_login_machine
from ssh_tools import MPIRUN, PDSH, SSH, launch_over_ssh
from starting import FIRST, LAST, PATIENCE, starts
from tools import Tool

SSH_TRUE = "`ssh host1 true`, until it has exited"
PDSH_TRUE = "`pdsh -f 32 true`, until it has exited"


def measure_start(rig: Rig, tool: Tool, directory: Path) -> dict[str, float]:
    """Milliseconds from right before exec until the first and the last of the hosts' workers have reported."""
    count = len(rig.hosts)
    argv = tool.argv(WORKER, count, directory)
    with meeting_on(rig.hosts, directory) as place, on_login_machine(rig, argv, directory) as running:
        return starts(place, count, running)


def measure_command(rig: Rig, argv: Sequence[str], quantity: str, directory: Path) -> dict[str, float]:
    """Milliseconds from right before exec until the program has exited."""
    with on_login_machine(rig, argv, directory) as running:
        seconds = running.await_end(PATIENCE)
        if running.process.returncode != 0:
            raise running.failed(f"exit code {running.process.returncode}")
    return {quantity: seconds * 1000}


@contextmanager
def on_2_hosts(tools: Tools, _shared: Path) -> Iterator[list[Subject]]:
    """Every launcher, beside the least that ssh takes."""
    with hosts_up(2) as rig:
        everyone = (launch_over_ssh(tools.launch), *tools.peers)
        alone = Subject(SSH_TRUE, partial(measure_command, rig, ["ssh", "host1", "true"], FIRST))
        yield [*(Subject(tool.name, partial(measure_start, rig, tool)) for tool in everyone), alone]


@contextmanager
def on_32_hosts(tools: Tools, _shared: Path) -> Iterator[list[Subject]]:
    """Every launcher that starts all at once, beside pdsh with nothing to do."""
    with hosts_up(32) as rig:
        everyone = (launch_over_ssh(tools.launch), *tools.peers)
        idle = [
            Subject(PDSH_TRUE, partial(measure_command, rig, peer.argv(Path("true"), 32, Path()), LAST))
            for peer in tools.peers
            if peer.name == PDSH.name
        ]
        yield [*(Subject(tool.name, partial(measure_start, rig, tool)) for tool in everyone), *idle]


SSH_START = Benchmark(
    name="ssh-start",
    title="2 hosts over ssh, a tiny worker on each: from exec of the launcher to a worker's first instruction",
    runs=20,
    quantities=(Quantity(FIRST, "ms"), Quantity(LAST, "ms")),
    goals=(Goal("launch", FIRST, 1.3, SSH_TRUE),),
    wants=(SSH, PDSH, MPIRUN),
    subjects=on_2_hosts,
    obstacle=obstacle,
)
SSH_START_32 = Benchmark(
    name="ssh-start32",
    title="32 hosts over ssh: from exec of the launcher to the last worker's first instruction",
    runs=10,
    quantities=(Quantity(FIRST, "ms"), Quantity(LAST, "ms")),
    goals=(Goal("launch", LAST, 2, PDSH_TRUE),),
    wants=(SSH, PDSH, MPIRUN),
    subjects=on_32_hosts,
    obstacle=obstacle,
)
