"""What a launcher does when a worker is killed, and what is left when the launcher itself is."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmark import Benchmark, Goal, Quantity, Subject, Tools
from processes import Running, kill, started, watched
from tools import PEERS, Tool
from workers import Report, meeting

WORKERS = 2
OVER = "launcher has exited and nothing is left"
NO_WORKER, NOTHING = "no worker is left", "nothing is left"
PATIENCE = 60.0
ORPHAN_PATIENCE = 3.0
"""Seconds after which a worker that outlives its launcher counts as left for ever."""
SETTLE = (0.3, 0.5)
"""Seconds between the workers' start and the kill; random, so that no poll interval is met at the same point."""

Victim = Callable[[Running, list[Report]], int]


def measure_kill(tool: Tool, victim: Victim, patience: float, directory: Path) -> dict[str, float]:
    """Milliseconds from a SIGKILL of `victim` until the workers, and until all processes of the run have ended."""
    with meeting(directory) as place, started(tool.argv(place.worker(), WORKERS, directory), directory) as running:
        reports = place.await_reports("started", WORKERS, running, PATIENCE)
        time.sleep(random.uniform(*SETTLE))
        with watched(running.alive()) as watch:
            target = victim(running, reports)
            began = time.monotonic()
            kill(target)
            workers_ended = watch.await_ends([each.pid for each in reports], patience)
            ended = watch.await_ends(watch.handles, patience) if workers_ended < float("inf") else workers_ended
        if ended < float("inf") and running.alive() != []:
            raise running.failed("it started something after the kill that still runs")
        return {NO_WORKER: (workers_ended - began) * 1000, NOTHING: (ended - began) * 1000}


def measure_kill_of_worker(tool: Tool, directory: Path) -> dict[str, float]:
    """Milliseconds until the launcher has exited and nothing is left."""
    return {OVER: measure_kill(tool, last_worker, PATIENCE, directory)[NOTHING]}


def last_worker(_running: Running, reports: list[Report]) -> int:
    """The worker that started last."""
    return reports[-1].pid


def launcher(running: Running, _reports: list[Report]) -> int:
    """The launcher itself."""
    return running.process.pid


def named(name: str) -> Victim:
    """A process of the run by its name."""
    return lambda running, _reports: running.pid_of(name)


@contextmanager
def kill_worker_subjects(tools: Tools, _shared: Path) -> Iterator[list[Subject]]:
    """Every launcher."""
    yield [Subject(tool.name, partial(measure_kill_of_worker, tool)) for tool in (tools.launch, *tools.peers)]


@contextmanager
def kill_launcher_subjects(tools: Tools, _shared: Path) -> Iterator[list[Subject]]:
    """Every launcher; of ours also the agent and the guard beside it."""
    victims = {
        "launch": launcher,
        "launch, its agent killed": named("launch-agent"),
        "launch, its guard killed": named("launch-guard"),
    }
    own = [
        Subject(name, partial(measure_kill, tools.launch, victim, ORPHAN_PATIENCE)) for name, victim in victims.items()
    ]
    yield own + [Subject(peer.name, partial(measure_kill, peer, launcher, ORPHAN_PATIENCE)) for peer in tools.peers]


KILL_WORKER = Benchmark(
    name="kill-worker",
    title="SIGKILL of one of 2 workers that end at SIGTERM",
    runs=10,
    quantities=(Quantity(OVER, "ms"),),
    goals=(Goal("launch", OVER, 150),),
    wants=PEERS,
    subjects=kill_worker_subjects,
)
KILL_LAUNCHER = Benchmark(
    name="kill-launcher",
    title="SIGKILL of the launcher with 2 workers under way",
    runs=5,
    quantities=(Quantity(NO_WORKER, "ms"), Quantity(NOTHING, "ms")),
    goals=tuple(
        Goal(name, NO_WORKER, 500) for name in ("launch", "launch, its agent killed", "launch, its guard killed")
    ),
    wants=PEERS,
    subjects=kill_launcher_subjects,
)
