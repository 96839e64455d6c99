"""What a benchmark is: subjects measured in turn, goals, and the table that comes out."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from processes import BenchError
from tools import Program, Tool

Measure = Callable[[Path], Mapping[str, float]]
"""One run in a fresh directory: a number for each quantity."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is measured; less is better."""

    name: str
    unit: str


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit on the median of one subject, absolute or as a multiple of another subject's median."""

    subject: str
    quantity: str
    at_most: float
    relative_to: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured, run by run in turn with the others."""

    name: str
    measure: Measure
    runs_at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Tools:
    """What a benchmark has on this machine: our launcher, further ways to start it, and what it wants of others."""

    launch: Tool
    variants: tuple[Tool, ...]
    installed: tuple[Program, ...]

    @property
    def peers(self) -> tuple[Tool, ...]:
        """The other launchers."""
        return tuple(each for each in self.installed if isinstance(each, Tool))

    def program(self, name: str) -> str | None:
        """The path of a program, if it is installed."""
        return next((each.program for each in self.installed if each.name == name), None)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark: how it is told, what it measures, and what is wanted of it."""

    name: str
    title: str
    runs: int
    quantities: tuple[Quantity, ...]
    goals: tuple[Goal, ...]
    wants: tuple[Program, ...]
    """Programs of others; it goes without those that are missing."""
    subjects: Callable[[Tools, Path], AbstractContextManager[list[Subject]]]
    """Told a directory that all runs share. What the subjects need is there in the `with` block."""
    obstacle: Callable[[], str | None] = lambda: None
    """Why it cannot run on this machine, and what helps; None where it can."""


@dataclass(slots=True)
class Samples:
    """The runs of one subject so far; a peer that fails is not measured any further."""

    values: dict[str, list[float]] = field(default_factory=dict)
    failure: str | None = None

    def add(self, numbers: Mapping[str, float]) -> None:
        """Take one run's numbers."""
        for quantity, number in numbers.items():
            self.values.setdefault(quantity, []).append(number)


Results = dict[str, Samples]


def run(subjects: list[Subject], runs: int, fresh: Callable[[], Path], progress: str) -> Results:
    """Measure A, B, ... A, B, ... so that all meet the same weather; a first round warms up and does not count."""
    results: Results = {subject.name: Samples() for subject in subjects}
    for turn in range(runs + 1):
        for subject in subjects:
            samples = results[subject.name]
            limit = subject.runs_at_most
            if samples.failure or (limit is not None and (turn == 0 or turn > limit)):
                continue
            try:
                numbers = subject.measure(fresh())
            except BenchError as error:
                samples.failure = str(error)
                tell(f"{progress}: {subject.name} failed: {error}")
                continue
            tell(f"{progress} {turn}/{runs}: {subject.name}: {shown_all(numbers)}")
            if turn > 0:
                samples.add(numbers)
    return results


def tell(line: str) -> None:
    """Progress, for whoever waits; stdout is the report's."""
    print(line, file=sys.stderr, flush=True)


def shown_all(numbers: Mapping[str, float]) -> str:
    """One run's numbers on a line."""
    return ", ".join(f"{quantity} {number:.4g}" for quantity, number in numbers.items())


# ---- the table
def table(benchmark: Benchmark, results: Results) -> str:
    """A Markdown table for each quantity, all subjects in it."""
    return "\n\n".join(quantity_table(benchmark, quantity, results) for quantity in benchmark.quantities)


def quantity_table(benchmark: Benchmark, quantity: Quantity, results: Results) -> str:
    """Median, smallest and largest run, and the ratio of medians to the first subject."""
    first = next(iter(results.values())).values.get(quantity.name, [])
    lines = [
        f"| {quantity.name} ({quantity.unit}) | median | min - max | runs | ratio | goal |",
        "|---|---|---|---|---|---|",
    ]
    for name, samples in results.items():
        values = samples.values.get(quantity.name)
        if values:
            cells = [name, number(statistics.median(values)), spread(values), str(len(values)), ratio(values, first)]
            lines.append("| " + " | ".join([*cells, verdict(benchmark, name, quantity.name, results)]) + " |")
        elif samples.failure:
            lines.append(f"| {name} | failed: {samples.failure.splitlines()[0]} | | | | |")
    return "\n".join(lines)


def verdict(benchmark: Benchmark, subject: str, quantity: str, results: Results) -> str:
    """Whether a goal is met; empty where there is none."""
    goals = [goal for goal in benchmark.goals if (goal.subject, goal.quantity) == (subject, quantity)]
    return ", ".join(goal_text(goal, results) for goal in goals)


def goal_text(goal: Goal, results: Results) -> str:
    """The limit, and whether it is kept."""
    own = statistics.median(results[goal.subject].values[goal.quantity])
    if goal.relative_to is None:
        return f"at most {number(goal.at_most)}: {met(own <= goal.at_most)}"
    other = results.get(goal.relative_to, Samples()).values.get(goal.quantity)
    limit = f"at most {goal.at_most:g} x {goal.relative_to}"
    if not other:
        return f"{limit}: not measured"
    return f"{limit}: {own / statistics.median(other):.3f}, {met(own <= goal.at_most * statistics.median(other))}"


def met(kept: bool) -> str:
    """One word."""
    return "met" if kept else "**missed**"


def number(value: float) -> str:
    """Three digits, or `never`."""
    if math.isinf(value):
        return "never"
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def spread(values: list[float]) -> str:
    """The smallest and the largest run."""
    return f"{number(min(values))} - {number(max(values))}"


def ratio(values: list[float], first: list[float]) -> str:
    """The median in multiples of the first subject's."""
    if not first or not statistics.median(first):
        return ""
    times = statistics.median(values) / statistics.median(first)
    return "" if math.isinf(times) else f"{times:.3f}" if 0.9 < times < 1.1 else f"{times:.2f}"
