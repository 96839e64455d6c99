"""`scripts/bench`: which benchmarks, how often, compared with what; a Markdown report on stdout."""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NoReturn

import click
from benchmark import Benchmark, Results, Samples, Tools, run, table, tell
from cleanup import guarded_directory
from flooding import FLOOD
from keras_fit import KERAS
from killing import KILL_LAUNCHER, KILL_WORKER
from located import Located
from machine import Machine, this_machine
from processes import BenchError
from ssh_gathering import SSH_GATHER
from ssh_killing import SSH_CUT, SSH_KILL_LAUNCHER, SSH_KILL_WORKER
from ssh_starting import SSH_START, SSH_START_32
from starting import START, START_32
from training_speed import TRAINING

LOCAL = (START, START_32, KILL_WORKER, KILL_LAUNCHER, FLOOD, TRAINING, KERAS)
OVER_SSH = (SSH_START, SSH_START_32, SSH_GATHER, SSH_KILL_WORKER, SSH_CUT, SSH_KILL_LAUNCHER)
BENCHMARKS = {each.name: (each,) for each in (*LOCAL, *OVER_SSH)} | {"ssh": OVER_SSH}
"""What each name on the command line means."""


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)), metavar="[BENCHMARK ...]")
@click.option(
    "--runs", type=click.IntRange(1), metavar="N", help="Runs of each subject, instead of each benchmark's own."
)
@click.option(
    "--peers",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="A directory to find other launchers in, before PATH. May be repeated.",
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write every run's numbers."
)
@click.option(
    "--launch",
    "program",
    default=str(Path(sys.executable).parent / "launch"),
    metavar="PROGRAM",
    help="The launcher to measure.  [default: the one beside this Python]",
)
@click.option(
    "--before",
    metavar="PROGRAM",
    help="Another version's `launch`, or its scripts/launch; start and start32 measure it by turns with this one.",
)
def bench(
    names: tuple[str, ...],
    runs: int | None,
    peers: tuple[str, ...],
    json_file: Path | None,
    program: str,
    before: str | None,
) -> None:
    """Measure the launcher beside the others that are installed.

    BENCHMARK is any of start, start32, kill-worker, kill-launcher, flood, training, keras; ssh-start, ssh-start32,
    ssh-gather, ssh-kill-worker, ssh-cut, ssh-kill-launcher; ssh means all over ssh. Without one, all that this machine
    can run.
    """
    machine = this_machine()
    warn_if_busy(machine)
    meant = dict.fromkeys(benchmark for name in names or BENCHMARKS for benchmark in BENCHMARKS[name])
    chosen = [each for each in meant if can_run(each, named=bool(names))]
    tools = Located(program, before, chosen, os.pathsep.join([*peers, os.environ.get("PATH", os.defpath)]))
    heading(machine, tools)
    collected: dict[str, Any] = {}
    with guarded_directory() as directory:
        for benchmark in chosen:
            results = measured(benchmark, tools.of(benchmark), runs or benchmark.runs, directory)
            print(f"\n### {benchmark.name}: {benchmark.title}\n\n{table(benchmark, results)}", flush=True)
            collected[benchmark.name] = {name: finite(samples) for name, samples in results.items()}
            if json_file is not None:
                json_file.write_text(json.dumps(as_record(machine, tools, collected), indent=1) + "\n")
            ours = next(iter(results.values()))
            if ours.failure is not None:
                sys.exit(1)


def warn_if_busy(machine: Machine) -> None:
    """Numbers of a busy machine are too high, and differ from run to run."""
    if not machine.quiet:
        tell(f"warning: load average {machine.load:.2f} on {machine.cores} cores: the numbers will be too high")


def can_run(benchmark: Benchmark, *, named: bool) -> bool:
    """Whether this machine has what the benchmark cannot do without.

    Raises:
        UsageError: it has not, and the benchmark was asked for by name.
    """
    obstacle = benchmark.obstacle()
    if obstacle is not None and named:
        raise click.UsageError(f"{benchmark.name}: {obstacle}")
    if obstacle is not None:
        tell(f"{benchmark.name} is left out: {obstacle}")
    return obstacle is None


def heading(machine: Machine, tools: Located) -> None:
    """Where, what, and how."""
    print(f"`{shlex.join(['scripts/bench', *sys.argv[1:]])}`")
    print(f"\n{machine.text()}" + ("" if machine.quiet else " (**busy: numbers too high**)"))
    print("\n" + ", ".join(f"{name} {version}" for name, version in tools.versions.items()))
    for line in tools.missing:
        print(f"\n{line}, then `--peers` with its directory if it is not on PATH.")
    sys.stdout.flush()


def measured(benchmark: Benchmark, tools: Tools, runs: int, directory: Path) -> Results:
    """Run one benchmark, each run in a fresh directory; all of them are gone afterwards.

    Raises:
        ClickException: it cannot even begin.
    """
    with TemporaryDirectory(dir=directory) as shared, fresh_directories(directory) as fresh:
        try:
            with benchmark.subjects(tools, Path(shared)) as subjects:
                return run(subjects, runs, fresh, benchmark.name)
        except BenchError as error:
            raise click.ClickException(f"{benchmark.name}: {error}") from error


@contextmanager
def fresh_directories(parent: Path) -> Iterator[Callable[[], Path]]:
    """A function that makes an empty directory, and removes the one that it made before."""
    with ExitStack() as last:

        def fresh() -> Path:
            last.close()
            return Path(last.enter_context(TemporaryDirectory(dir=parent)))

        yield fresh


def finite(samples: Samples) -> dict[str, Any]:
    """For JSON, which has no infinity: what never happened is null."""
    values = {
        quantity: [None if math.isinf(number) else number for number in numbers]
        for quantity, numbers in samples.values.items()
    }
    return {"runs": values, "failure": samples.failure}


def as_record(machine: Machine, tools: Located, collected: dict[str, Any]) -> dict[str, Any]:
    """All of it, for JSON."""
    return {"command": sys.argv[1:], "machine": asdict(machine), "versions": tools.versions, "benchmarks": collected}


def end_by_signal(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, so that all that was started is ended."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, end_by_signal)
    bench(prog_name="scripts/bench")
