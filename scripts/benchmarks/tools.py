"""The launchers that are compared, each with the command that starts the same workers."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

VERSION = re.compile(r"\d+(\.\d+)+\S*|\b20\d{6}\b")
VERSION_PATIENCE = 60.0

Arguments = Callable[[Path, int, Path], list[str]]
"""(worker, count, fresh directory) -> what stands behind the program's name to run `count` workers, lines tagged."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A launcher as it is found on this machine."""

    name: str
    program: str
    arguments: Arguments
    get: str
    """The command that installs it."""
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

    return Tool(name, program, arguments, "scripts/launch", re.compile(rb"\[worker (\d+)\] +"))


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
    Tool("GNU parallel", "parallel", parallel_arguments, "apt-get install parallel", re.compile(rb"(\d+)\t")),
    Tool("mpirun", "mpirun", mpirun_arguments, "apt-get install openmpi-bin", re.compile(rb"\[1,(\d+)\]<stdout>: ?")),
    Tool("honcho", "honcho", honcho_arguments, "pip install honcho", re.compile(rb"[\d:]+ worker(\d+)\.1 +\| "), 1),
    Tool("torchrun", "torchrun", torchrun_arguments, "pip install torch", re.compile(rb"\[default(\d+)\]:")),
)


def found(tool: Tool, path: str) -> Tool | None:
    """The tool with its whole path, looked up in the directories of `path`; None where it is not installed."""
    program = shutil.which(tool.program, path=path)
    if program is None:
        return None
    return Tool(tool.name, program, tool.arguments, tool.get, tool.tag, tool.flood_runs_at_most)


def version(tool: Tool) -> str:
    """What the tool says of its own version; `torchrun` does not say, its Python does."""
    argv = [tool.program, "--version"]
    if tool.name == "torchrun":
        with Path(tool.program).open() as script:
            python = script.readline().removeprefix("#!").strip()
        argv = [python, "-c", "import importlib.metadata; print(importlib.metadata.version('torch'))"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=VERSION_PATIENCE, check=False).stdout
    number = VERSION.search(said)
    return number[0] if number else "unknown version"
