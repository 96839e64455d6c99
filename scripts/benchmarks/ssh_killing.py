"""What a launcher does when a worker on a host dies, when a host is cut off, and what is left when it dies itself."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmark import Benchmark, Goal, Quantity, Subject, Tools
from killing import NO_WORKER, NOTHING, OVER, SETTLE
from processes import Running, kill, name_of, watched
from ssh_hosts import WORKER, Rig, hosts_up, meeting_on, obstacle, on_login_machine
from ssh_tools import MPIRUN, PDSH, SSH, launch_over_ssh
from tools import Tool

HOSTS = 2
LEASE = 3.0
"""Seconds; the default of 15 would only make the benchmark longer."""
START_PATIENCE = 60.0
PATIENCE = 3 * LEASE
"""Seconds after which what still lives counts as left for ever."""
PEER_RUNS = 3
"""Most of theirs last that long."""
EXITED = "launcher has exited"
CUT_OFF = "no worker is left on the host that was cut off"


@dataclass(frozen=True, slots=True)
class Run:
    """A launcher under way. All processes by their numbers on this machine."""

    running: Running
    rig: Rig
    workers: tuple[int, ...]
    """One on each host."""
    on_hosts: tuple[int, ...]
    """All that lives there, the workers too, sshd not."""


def run_of(running: Running, rig: Rig) -> Run:
    """What there is, now that all workers have started."""
    there = [process.pid for host in rig.hosts for process in host.processes()]
    workers = [pid for pid in there if name_of(pid) == WORKER.name]
    if len(workers) != len(rig.hosts):
        raise running.failed(f"{len(workers)} workers on {len(rig.hosts)} hosts")
    return Run(running, rig, tuple(workers), tuple(there))


# ---- what is done to a run, and what is told of its end
def kill_worker(run: Run) -> None:
    """The one on the last host."""
    kill(run.workers[-1])


def kill_launcher(run: Run) -> None:
    """Its ssh processes live on, unless they notice."""
    kill(run.running.process.pid)


def cut_off(run: Run) -> None:
    """The last host: packets vanish, and nobody is told."""
    run.rig.hosts[-1].partition()


def whole_end(_run: Run, ends: Mapping[int, float]) -> dict[str, float]:
    """The launcher is among what is left."""
    return {OVER: max(ends.values())}


def end_of_workers(run: Run, ends: Mapping[int, float]) -> dict[str, float]:
    """They first, then agents and ssh processes."""
    return {NO_WORKER: max(ends[pid] for pid in run.workers), NOTHING: max(ends.values())}


def end_on_both_sides(run: Run, ends: Mapping[int, float]) -> dict[str, float]:
    """Of the cut, and then of all."""
    return {EXITED: ends[run.running.process.pid], CUT_OFF: ends[run.workers[-1]], NOTHING: max(ends.values())}


Harm = Callable[[Run], None]
Ends = Callable[[Run, Mapping[int, float]], dict[str, float]]
"""(run, when each process has ended) -> the moments that matter."""


def measure(rig: Rig, tool: Tool, harm: Harm, told: Ends, directory: Path) -> dict[str, float]:
    """Milliseconds from right before the harm."""
    argv = tool.argv(WORKER, len(rig.hosts), directory)
    with meeting_on(rig.hosts, directory) as place, on_login_machine(rig, argv, directory) as running:
        place.await_reports("started", len(rig.hosts), running, START_PATIENCE)
        time.sleep(random.uniform(*SETTLE))
        run = run_of(running, rig)
        with watched([*running.alive(), *run.on_hosts]) as watch:
            began = time.monotonic()
            harm(run)
            ends = watch.ends(watch.handles, PATIENCE)
        moments = told(run, ends)
        all_over = max(ends.values()) < float("inf")
        if all_over and (running.alive() or any(host.processes() for host in rig.hosts)):
            raise running.failed("it started something after the harm that still runs")
        return {quantity: (moment - began) * 1000 for quantity, moment in moments.items()}


@contextmanager
def subjects(harm: Harm, told: Ends, timeouts: str, tools: Tools, _shared: Path) -> Iterator[list[Subject]]:
    """Every launcher."""
    with hosts_up(HOSTS) as rig:
        own = Subject("launch", partial(measure, rig, launch_over_ssh(tools.launch, timeouts), harm, told))
        yield [own, *(Subject(peer.name, partial(measure, rig, peer, harm, told), PEER_RUNS) for peer in tools.peers)]


SSH_KILL_WORKER = Benchmark(
    name="ssh-kill-worker",
    title="2 hosts over ssh: SIGKILL of one of 2 workers that end at SIGTERM",
    runs=10,
    quantities=(Quantity(OVER, "ms"),),
    goals=(Goal("launch", OVER, 200),),
    wants=(SSH, PDSH, MPIRUN),
    subjects=partial(subjects, kill_worker, whole_end, ""),
    obstacle=obstacle,
)
SSH_KILL_LAUNCHER = Benchmark(
    name="ssh-kill-launcher",
    title="2 hosts over ssh: SIGKILL of the launcher",
    runs=5,
    quantities=(Quantity(NO_WORKER, "ms"), Quantity(NOTHING, "ms")),
    goals=(Goal("launch", NO_WORKER, 500),),
    wants=(SSH, PDSH, MPIRUN),
    subjects=partial(subjects, kill_launcher, end_of_workers, ""),
    obstacle=obstacle,
)
SSH_CUT = Benchmark(
    name="ssh-cut",
    title=f"2 hosts over ssh: the link to one of them is cut; the lease is {LEASE:g} s",
    runs=5,
    quantities=(Quantity(EXITED, "ms"), Quantity(CUT_OFF, "ms"), Quantity(NOTHING, "ms")),
    goals=tuple(Goal("launch", quantity, LEASE * 1000 + 500) for quantity in (EXITED, CUT_OFF)),
    wants=(SSH, PDSH, MPIRUN),
    subjects=partial(subjects, cut_off, end_on_both_sides, f"timeouts:\n  lease: {LEASE:g}s\n"),
    obstacle=obstacle,
)
