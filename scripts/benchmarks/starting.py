"""From exec of a launcher to its workers' first instruction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmark import Benchmark, Goal, Quantity, Subject, Tools
from processes import Running, started
from tools import PEERS, Tool
from workers import Meeting, meeting

FIRST, LAST = "first worker started", "last worker started"
PATIENCE = 60.0


def measure_start(tool: Tool, count: int, directory: Path) -> dict[str, float]:
    """Milliseconds from right before exec until the first and the last of `count` workers have reported."""
    with meeting(directory) as place, started(tool.argv(place.worker(), count, directory), directory) as running:
        return starts(place, count, running)


def starts(place: Meeting, count: int, running: Running) -> dict[str, float]:
    """When the first and the last of `count` workers have reported; they are let go, and the launcher has ended."""
    arrived = [each.at for each in place.await_reports("started", count, running, PATIENCE)]
    place.release(count)
    running.await_end(PATIENCE)
    return {FIRST: (min(arrived) - running.began) * 1000, LAST: (max(arrived) - running.began) * 1000}


@contextmanager
def subjects(count: int, tools: Tools, _shared: Path) -> Iterator[list[Subject]]:
    """Every launcher with `count` workers."""
    everyone = (tools.launch, *tools.variants, *tools.peers)
    yield [Subject(tool.name, partial(measure_start, tool, count)) for tool in everyone]


START = Benchmark(
    name="start",
    title="2 tiny workers: from exec of the launcher to a worker's first instruction",
    runs=20,
    quantities=(Quantity(FIRST, "ms"), Quantity(LAST, "ms")),
    goals=(Goal("launch", FIRST, 100),),
    wants=PEERS,
    subjects=partial(subjects, 2),
)
START_32 = Benchmark(
    name="start32",
    title="32 tiny workers: from exec of the launcher to the last worker's first instruction",
    runs=10,
    quantities=(Quantity(FIRST, "ms"), Quantity(LAST, "ms")),
    goals=(Goal("launch", LAST, 500),),
    wants=PEERS,
    subjects=partial(subjects, 32),
)
