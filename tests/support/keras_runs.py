"""Runs the program `keras_ways` in several worlds, and reads what came out of each way."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

SCRIPTS = Path(__file__).parents[1] / "training" / "scripts"
PACKAGE = SCRIPTS / "keras_ways"
MOST_BROKEN = 40  # ways that end a gang; more of them are not waited for


class World(NamedTuple):
    """Under what the ways run: `workers` processes (0: one without `TF_CONFIG`) with some logical devices each."""

    workers: int
    devices: int = 1
    mirrored: bool = False

    @property
    def replicas(self) -> int:
        """How many replicas train together."""
        return max(1, self.workers) * self.devices

    @property
    def strategy(self) -> str:
        """The strategy's name for the program."""
        return "workers" if self.workers else "mirrored" if self.mirrored else "alone"


ALONE = World(0)
EVERYWHERE = "1 1x2 2 3 2x2"


class Way(NamedTuple):
    """What the decorator of a way says."""

    name: str
    by_replicas: bool = False
    worlds: str = "2"

    def everywhere(self) -> Way:
        """The same way, in all worlds."""
        return self._replace(worlds=EVERYWHERE)

    def reference(self, world: World) -> World:
        """The one process that must arrive at the same numbers."""
        return World(0, world.replicas, mirrored=True) if self.by_replicas and world.replicas > 1 else ALONE


@cache
def ways() -> dict[str, Way]:
    """All ways, in the order in which the program knows them, read without importing TensorFlow."""
    modules = [path for path in sorted(PACKAGE.glob("*.py")) if not path.name.startswith("_")]
    return {way.name: way for path in modules for way in ways_of(ast.parse(path.read_text()))}


def ways_of(module: ast.Module) -> list[Way]:
    """The functions with the decorator `@way(...)`."""
    return [
        Way(function.name, **{word.arg: ast.literal_eval(word.value) for word in mark.keywords if word.arg})
        for function in module.body
        if isinstance(function, ast.FunctionDef)
        for mark in function.decorator_list
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "way"
    ]


class Record(NamedTuple):
    """What one worker made of one way: an outcome, or the error that ended it."""

    outcome: dict[str, Any] | None
    error: str = ""


class Arrived(NamedTuple):
    """What all workers of one world made of all ways, and what they printed."""

    records: Mapping[str, list[Record]]
    outputs: list[str]
    directory: Path

    def outcomes(self, way: str) -> list[dict[str, Any]]:
        """By worker.

        Raises:
            AssertionError: a worker did not end this way; names the error of each.
        """
        records = self.records[way]
        broken = [f"worker {i}: {record.error}" for i, record in enumerate(records) if record.outcome is None]
        assert not broken, "\n".join([f"{way} broke", *broken])
        return [record.outcome for record in records if record.outcome is not None]


def run(
    gang: Callable[..., Any],
    directory: Path,
    world: World,
    names: Sequence[str],
    keras: str = "",
    enable: str = "",
) -> Arrived:
    """Run the ways in one gang; where one breaks it, the ways after it run in another.

    `keras`: a directory with another Keras than the installed one; `enable`: a module whose `enable()` is called.
    """
    path = [keras, str(SCRIPTS), str(SCRIPTS.parents[2]) if enable else ""]
    env = {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    arguments = ["--enable", enable] if enable else []
    left, outputs = list(names), [""] * max(1, world.workers)
    records: dict[str, list[Record]] = {}
    for attempt in range(MOST_BROKEN):
        if not left:
            break
        place = directory / str(attempt)
        where = [str(place), world.strategy, str(world.devices)]
        argv = ["python", "-m", "keras_ways", *where, *arguments, *left]
        ended = gang(world.workers, argv, env=env, keras_fix=True, timeout=1500)
        outputs = [before + worker.output for before, worker in zip(outputs, ended, strict=True)]
        found = {name: [read(place / str(i) / f"{name}.json") for i in range(len(ended))] for name in left}
        broken = [name for name in left if any(record.outcome is None for record in found[name])]
        done = left if not broken or world.workers == 0 else left[: left.index(broken[0]) + 1]
        records |= {name: found[name] for name in done}
        left = left[len(done) :]
    assert not left, f"too many ways broke; the last worker's output ends so:\n{outputs[-1][-4000:]}"
    return Arrived(records, outputs, directory)


def read(path: Path) -> Record:
    """The record of a way; one that was not reached has none."""
    if not path.exists():
        return Record(None, "not reached")
    content = json.loads(path.read_text())
    return Record(content.get("outcome"), content.get("error", ""))


def numbers(value: Any, at: str = "") -> dict[str, Any]:
    """What an outcome holds, by place: `history/0/loss/1`. What depends on the world by design is left out."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {
            place: n for key, below in items if key != "by_world" for place, n in numbers(below, f"{at}/{key}").items()
        }
    return {at.removeprefix("/"): value}
