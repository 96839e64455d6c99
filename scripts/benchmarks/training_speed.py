"""The project's own training, under the launcher and with the same two workers started by hand."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmark import Benchmark, Goal, Quantity, Subject, Tools
from processes import BenchError, environment, started
from tools import Tool

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2
EPOCHS = 40
PROGRAM = ["python", "-m", "training", "--epochs", str(EPOCHS)]
RATE = re.compile(r"([\d.]+) steps/s$", re.MULTILINE)
WARM_UP = 2
"""Epochs that do not count as the steady part."""
PATIENCE = 600.0

WALL, STEP = "wall time of the whole program", "a step of the steady part"
HAND = "by hand"


def numbers_of(log: Path, wall: float) -> dict[str, float]:
    """Wall time, and the median over the epochs of the milliseconds a step.

    Raises:
        BenchError: the chief's log does not tell of every epoch.
    """
    rates = [float(rate) for rate in RATE.findall(log.read_text())]
    if len(rates) != EPOCHS:
        raise BenchError(f"{log} tells of {len(rates)} epochs, not of {EPOCHS}")
    return {WALL: wall, STEP: 1000 / statistics.median(rates[WARM_UP:])}


def launch_argv(tool: Tool, directory: Path, *options: str) -> list[str]:
    """The command for the training."""
    return [tool.program, "--workers", str(WORKERS), "--run-dir", str(directory / "runs"), *options, "--", *PROGRAM]


def under_launch(tool: Tool, directory: Path) -> dict[str, float]:
    """From exec of the launcher to its exit."""
    with started(launch_argv(tool, directory), directory, cwd=ROOT) as running:
        wall = running.await_end(PATIENCE)
        if running.process.returncode != 0:
            raise running.failed(f"exit code {running.process.returncode}")
    return numbers_of(directory / "runs" / "latest" / "attempt-0" / "worker-0.log", wall)


def by_hand(tool: Tool, directory: Path) -> dict[str, float]:
    """From the exec of the first worker to the exit of the last one."""
    tasks = planned_tasks(tool, directory)
    began = time.monotonic()
    with ExitStack() as stack:
        workers = []
        for task in tasks:
            log = stack.enter_context((directory / f"{task['task']}.log").open("wb"))
            env = hand_environment(task["env"], directory / "output")
            workers.append(stack.enter_context(started(task["argv"], directory, stdout=log, env=env, cwd=ROOT)))
        for worker in workers:
            worker.await_end(PATIENCE)
        wall = time.monotonic() - began
        for worker in workers:
            if worker.process.returncode != 0:
                raise worker.failed(f"exit code {worker.process.returncode}")
    return numbers_of(directory / "worker-0.log", wall)


def planned_tasks(tool: Tool, directory: Path) -> list[dict[str, Any]]:
    """What the launcher would start, with ports that are free now."""
    argv = launch_argv(tool, directory, "--dry-run", "--json")
    plan = subprocess.run(argv, env=environment(), cwd=ROOT, capture_output=True, timeout=PATIENCE, check=True).stdout
    tasks: list[dict[str, Any]] = json.loads(plan)["tasks"]
    return tasks


def hand_environment(planned: dict[str, str], output: Path) -> dict[str, str]:
    """TF_CONFIG and thread counts as under the launcher; nothing that only a launcher brings."""
    kept = {key: value for key, value in planned.items() if not key.startswith("LAUNCH_") and key != "PYTHONPATH"}
    return {**kept, "LAUNCH_OUTPUT_DIR": str(output)}


@contextmanager
def subjects(tools: Tools, _shared: Path) -> Iterator[list[Subject]]:
    """Under the launcher, and without it."""
    yield [
        Subject("launch", partial(under_launch, tools.launch)),
        Subject(HAND, partial(by_hand, tools.launch)),
    ]


TRAINING = Benchmark(
    name="training",
    title=f"Training on the digits, 2 workers, {EPOCHS} epochs",
    runs=7,
    quantities=(Quantity(WALL, "s"), Quantity(STEP, "ms")),
    goals=(Goal("launch", WALL, 1.02, HAND), Goal("launch", STEP, 1.02, HAND)),
    wants=(),
    subjects=subjects,
)
