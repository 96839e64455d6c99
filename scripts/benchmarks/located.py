"""Our launcher and the programs of others, as they are found on this machine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import click
from benchmark import Benchmark, Tools
from machine import ROOT
from tools import found, launch, version

CHECKOUT = ROOT / "scripts" / "launch"


class Located:
    """Our launcher, and what the chosen benchmarks want of others."""

    def __init__(self, program: str, before: str | None, chosen: Iterable[Benchmark], path: str) -> None:
        """Look them up in the directories of `path`; the launchers are `program` and, of another version, `before`.

        Raises:
            UsageError: a launcher is not where it should be.
        """
        self.launch = launch(launcher_path(program, "--launch"))
        # Starting the checkout's script sets up its virtual environment: only where this already runs in it.
        in_checkout = Path(sys.prefix) == ROOT / ".venv"
        own = [launch(str(CHECKOUT), "scripts/launch")] if in_checkout else []
        other = [launch(launcher_path(before, "--before"), "before")] if before else []
        self._variants = (*own, *other)
        self._found = {wanted: found(wanted, path) for benchmark in chosen for wanted in benchmark.wants}

    def of(self, benchmark: Benchmark) -> Tools:
        """Those that a benchmark wants."""
        there = (self._found[wanted] for wanted in benchmark.wants)
        return Tools(self.launch, self._variants, tuple(each for each in there if each is not None))

    @property
    def missing(self) -> list[str]:
        """A line for each program that is not installed."""
        lines = (
            f"{wanted.name} is not installed: `{wanted.get}`" for wanted, there in self._found.items() if not there
        )
        return list(dict.fromkeys(lines))

    @cached_property
    def versions(self) -> dict[str, str]:
        """Of all that is measured, by name."""
        return {each.name: version(each) for each in (self.launch, *self._found.values()) if each is not None}


def launcher_path(program: str, option: str) -> str:
    """The whole path of a launcher that an option names.

    Raises:
        UsageError: it is no program.
    """
    path = shutil.which(program)
    if path is None:
        raise click.UsageError(f"{program} is not a program; name the launcher with {option} PROGRAM")
    return str(Path(path).absolute())
