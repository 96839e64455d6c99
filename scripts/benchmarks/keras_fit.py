"""A step of Keras's `fit`, with the fix that the launcher brings, beside legacy Keras and a custom loop."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmark import Benchmark, Goal, Quantity, Subject, Tools
from processes import BenchError, started
from tools import Package, Tool

WORKER = Path(__file__).resolve().parent / "keras_worker.py"
PATIENCE = 900.0
SAME = 1e-3
"""How far apart, relative, the last losses of two subjects may lie: they train the same on the same."""

TF_KERAS = Package("tf_keras", "tf_keras", "pip install --no-deps --target DIR tf_keras==2.21.0")
FIT, LEGACY, LOOP = "fit", "legacy fit", "custom loop"
MANY = 50
MLP, ARRAYS, CNN = "mlp dataset", "mlp arrays", "cnn dataset"
STEP, END = "a step", "the end of fit"
LOSS = "loss"

Losses = dict[str, float]


def at_once(name: str, steps: int) -> str:
    """The name of a subject."""
    return f"{name}, {steps} steps at once" if steps > 1 else f"{name}, step by step"


def measure(argv: list[str], env: dict[str, str], losses: Losses, directory: Path) -> dict[str, float]:
    """Train all models under the launcher: milliseconds a step, seconds that the end of `fit` took.

    Raises:
        BenchError: a worker failed, or what it trained is not what another subject did.
    """
    file = directory / "numbers.json"
    command = [word.format(runs=directory / "runs", file=file) for word in argv]
    with started(command, directory, env=env) as running:
        running.await_end(PATIENCE)
        if running.process.returncode != 0:
            raise running.failed(f"exit code {running.process.returncode}")
    told: dict[str, dict[str, float]] = json.loads(file.read_text())
    for case, numbers in told.items():
        expected = losses.setdefault(case, numbers[LOSS])
        if not math.isclose(expected, numbers[LOSS], rel_tol=SAME):
            raise BenchError(f"{case}: the last loss is {numbers[LOSS]}, where another subject had {expected}")
    steps = {f"{case}: {STEP}": numbers["step"] for case, numbers in told.items()}
    return steps | {f"{case}: {END}": numbers["end"] for case, numbers in told.items()}


def subject(launch: Tool, losses: Losses, name: str, steps: int, way: str, **env: str) -> Subject:
    """Two workers under the launcher."""
    program = ["python", str(WORKER), way, str(steps), "{file}"]
    argv = [launch.program, "--workers", "2", "--run-dir", "{runs}", "--", *program]
    return Subject(at_once(name, steps), partial(measure, argv, env, losses))


@contextmanager
def subjects(tools: Tools, _shared: Path) -> Iterator[list[Subject]]:
    """`fit`, legacy Keras where it is installed, and the loop."""
    one: Callable[..., Subject] = partial(subject, tools.launch, {})
    found = [one(FIT, MANY, "fit"), one(FIT, 1, "fit"), one(LOOP, MANY, "loop")]
    package = tools.program(TF_KERAS.name)
    if package is not None:
        legacy = {"TF_USE_LEGACY_KERAS": "1", "PYTHONPATH": str(Path(package).parent)}
        found += [one(LEGACY, MANY, "fit", **legacy), one(LEGACY, 1, "fit", **legacy)]
    yield found


def goals() -> Iterator[Goal]:
    """Those of the issue, for each model."""
    for case in (MLP, CNN):
        quantity = f"{case}: {STEP}"
        yield Goal(at_once(FIT, MANY), quantity, 0.6, at_once(LEGACY, MANY))
        yield Goal(at_once(FIT, MANY), quantity, 1.5, at_once(LOOP, MANY))
        yield Goal(at_once(FIT, 1), quantity, 0.6, at_once(LEGACY, 1))


KERAS = Benchmark(
    name="keras",
    title="Keras `fit`, 2 workers with one core each",
    runs=5,
    quantities=tuple(
        Quantity(f"{case}: {what}", unit) for what, unit in ((STEP, "ms"), (END, "s")) for case in (MLP, ARRAYS, CNN)
    ),
    goals=tuple(goals()),
    wants=(TF_KERAS,),
    subjects=subjects,
)
