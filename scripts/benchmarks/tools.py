"""The launchers that are compared, each with the command that starts the same workers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

VERSION = re.compile(r"\d+(\.\d+)+\S*|\b20\d{6}\b")
VERSION_PATIENCE = 60.0
ASKED_BRIEFLY = {"OpenSSH", "pdsh"}
"""They know `-V` only."""

Arguments = Callable[[Path, int, Path], list[str]]
"""(worker, count, fresh directory) -> what stands behind the program's name to run `count` workers, lines tagged."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that a benchmark wants, by its name or as it is found on this machine."""

    name: str
    program: str
    get: str
    """The command that installs it."""


@dataclass(frozen=True, slots=True)
class Package(Program):
    """A Python package of that name, in a directory of its own that `pip install --target` filled."""


Wanted = TypeVar("Wanted", bound=Program)


@dataclass(frozen=True, slots=True)
class Tool(Program):
    """A launcher."""

    arguments: Arguments
    tag: re.Pattern[bytes]
    """What it puts in front of a worker's line; the group tells the workers apart."""
    flood_runs_at_most: int | None = None
    """A tool that takes very long is measured no more often."""

    def argv(self, worker: Path, count: int, directory: Path) -> list[str]:
        """The command for `count` workers."""
        return [self.program, *self.arguments(worker, count, directory)]


def launch(program: str, name: str = "launch") -> Tool:
    """This project's launcher."""

    def arguments(worker: Path, count: int, directory: Path) -> list[str]:
        return ["--workers", str(count), "--run-dir", str(directory / "runs"), "--", str(worker)]

    return Tool(name, program, "scripts/launch", arguments, re.compile(rb"\[worker (\d+)\] +"))


def honcho_arguments(worker: Path, count: int, directory: Path) -> list[str]:
    """A Procfile of as many lines."""
    procfile = directory / "Procfile"
    procfile.write_text("".join(f"worker{n}: {worker}\n" for n in range(count)))
    return ["-f", str(procfile), "start"]


def torchrun_arguments(worker: Path, count: int, directory: Path) -> list[str]:
    """Tagged lines come with `--tee`, which wants a log directory."""
    logs = ["--tee", "1", "--log-dir", str(directory / "logs")]
    return ["--standalone", "--nproc-per-node", str(count), *logs, "--no-python", str(worker)]


def mpirun_arguments(worker: Path, count: int, _directory: Path) -> list[str]:
    """More workers than cores, and root, are fine here."""
    return ["--allow-run-as-root", "--oversubscribe", "--tag-output", "-np", str(count), str(worker)]


def parallel_arguments(worker: Path, count: int, _directory: Path) -> list[str]:
    """The worker ignores its argument."""
    numbers = map(str, range(count))
    return ["--jobs", str(count), "--tag", "--line-buffer", "--halt", "now,fail=1", str(worker), ":::", *numbers]


PEERS = (
    Tool("GNU parallel", "parallel", "apt-get install parallel", parallel_arguments, re.compile(rb"(\d+)\t")),
    Tool("mpirun", "mpirun", "apt-get install openmpi-bin", mpirun_arguments, re.compile(rb"\[1,(\d+)\]<stdout>: ?")),
    Tool("honcho", "honcho", "pip install honcho", honcho_arguments, re.compile(rb"[\d:]+ worker(\d+)\.1 +\| "), 1),
    Tool("torchrun", "torchrun", "pip install torch", torchrun_arguments, re.compile(rb"\[default(\d+)\]:")),
)


def found(wanted: Wanted, path: str) -> Wanted | None:
    """The program with its whole path, looked up in the directories of `path`; None where it is not installed."""
    program = package(wanted, path) if isinstance(wanted, Package) else shutil.which(wanted.program, path=path)
    return replace(wanted, program=program) if program else None


def package(wanted: Package, path: str) -> str | None:
    """The directory of a package in one of the directories of `path`."""
    places = (Path(directory).resolve() / wanted.program for directory in path.split(os.pathsep))
    return next((str(place) for place in places if (place / "__init__.py").is_file()), None)


def version(tool: Program) -> str:
    """What the program says of its own version; `torchrun` does not say, its Python does, and a package's directory."""
    if isinstance(tool, Package):
        records = Path(tool.program).parent.glob(f"{tool.name}-*.dist-info")
        return next((each.stem.removeprefix(f"{tool.name}-") for each in records), "unknown version")
    argv = [tool.program, "-V" if tool.name in ASKED_BRIEFLY else "--version"]
    if tool.name == "torchrun":
        with Path(tool.program).open() as script:
            python = script.readline().removeprefix("#!").strip()
        argv = [python, "-c", "import importlib.metadata; print(importlib.metadata.version('torch'))"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=VERSION_PATIENCE, check=False)
    number = VERSION.search(said.stdout + said.stderr)
    return number[0] if number else "unknown version"
