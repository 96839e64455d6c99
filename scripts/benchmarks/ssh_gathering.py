"""A checkpoint is brought from the chief's host: all of it, and then once more with nothing changed."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmark import Benchmark, Goal, Quantity, Subject, Tools
from processes import BenchError, Running
from ssh_hosts import WORKER, Rig, hosts_up, meeting_on, obstacle, on_login_machine
from ssh_tools import RSYNC, SSH, launch_over_ssh
from tools import Tool

SIZE = 500_000_000
SHARD = "checkpoints/ckpt-1.data-00000-of-00001"
SAVE = f"""\
mkdir -p "$LAUNCH_OUTPUT_DIR/checkpoints" && cd "$LAUNCH_OUTPUT_DIR"
head -c {SIZE} /dev/urandom >{SHARD}
printf '\\127\\373\\200\\213\\044\\165\\107\\333' >checkpoints/ckpt-1.index
echo 'model_checkpoint_path: "ckpt-1"' >checkpoints/checkpoint
"""
"""What a worker does that saves at full speed. The bytes are those that end every index."""
DISK = "2g"
PATIENCE = 300.0
BROUGHT = ("chief", "gathered.jsonl", ".gathering")
"""What a run directory has of other hosts."""
COLD, AGAIN, AT_THE_END = "500 MB brought", "nothing changed", "nothing changed, at the end of a run"
LOOK = 0.05
SSH_TRUE = "`ssh host1 true`"


def seconds(rig: Rig, argv: Sequence[str], directory: Path) -> float:
    """From right before exec of a program until it has exited."""
    with on_login_machine(rig, argv, directory) as running:
        needed = running.await_end(PATIENCE)
        if running.process.returncode != 0:
            raise running.failed(f"exit code {running.process.returncode}")
        return needed


def saved_run(rig: Rig, launch: Tool, directory: Path) -> Path:
    """The directory of a run that has ended, whose chief has saved a checkpoint on its host."""
    seconds(rig, [*launch_over_ssh(launch).argv(Path("sh"), 1, directory), "-c", SAVE], directory)
    return (directory / "runs" / "latest").resolve()


def measure_collect(rig: Rig, launch: Tool, run: Path, directory: Path) -> dict[str, float]:
    """`launch collect`, for a run of which nothing is here yet, and again."""
    own = directory / run.name
    shutil.copytree(run, own, symlinks=True, ignore=shutil.ignore_patterns(*BROUGHT))
    return twice(rig, [launch.program, "collect", str(own)], own / "chief" / SHARD, directory)


def measure_end(rig: Rig, launch: Tool, directory: Path) -> dict[str, float]:
    """From the end of a worker whose files have come while it ran until the launcher knows that it has them all."""
    [host] = rig.hosts
    tool = launch_over_ssh(launch, "collect_interval: 1\n")
    with (
        meeting_on(rig.hosts, directory, SAVE) as place,
        on_login_machine(rig, tool.argv(WORKER, 1, directory), directory) as running,
    ):
        place.await_reports("finished", 1, running, PATIENCE)
        run = (directory / "runs" / "latest").resolve()
        await_file(run / "chief" / "checkpoints" / "checkpoint", running)
        place.release(1)
        running.await_end(PATIENCE)
    host.run(f"rm -r ~/.tf-launch/runs/{run.name}*/output/checkpoints")
    when = {event["type"]: event["monotonic"] for event in map(json.loads, (run / "events.jsonl").open())}
    return {AT_THE_END: when["gathering_ended"] - when["task_exited"]}


def await_file(path: Path, running: Running) -> None:
    """Return once it is here; what names a checkpoint comes after the checkpoint.

    Raises:
        BenchError: it has not come.
    """
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        if time.monotonic() > deadline or running.process.poll() is not None:
            raise running.failed(f"{path} has not come")
        time.sleep(LOOK)


def measure_rsync(rig: Rig, program: str, source: str, directory: Path) -> dict[str, float]:
    """Into an empty directory, and again."""
    return twice(
        rig, [program, "-a", "-e", "ssh", source, f"{directory}/chief/"], directory / "chief" / SHARD, directory
    )


def twice(rig: Rig, argv: Sequence[str], shard: Path, directory: Path) -> dict[str, float]:
    """The same command, twice.

    Raises:
        BenchError: the checkpoint has not come.
    """
    os.sync()  # what an earlier run wrote is not this one's to wait for
    cold = seconds(rig, argv, directory)
    if not shard.exists() or shard.stat().st_size != SIZE:
        raise BenchError(f"{argv!r}: {shard} has not come")
    return {COLD: cold, AGAIN: seconds(rig, argv, directory)}


def measure_ssh(rig: Rig, directory: Path) -> dict[str, float]:
    """What connecting takes of the rest."""
    return {AGAIN: seconds(rig, ["ssh", "host1", "true"], directory)}


@contextmanager
def subjects(tools: Tools, shared: Path) -> Iterator[list[Subject]]:
    """Ours and rsync, on one saved run."""
    with hosts_up(1, DISK) as rig:
        run = saved_run(rig, tools.launch, shared)
        found = [
            Subject("launch", partial(measure_collect, rig, tools.launch, run)),
            Subject("launch, in a run", partial(measure_end, rig, tools.launch)),
        ]
        output = rig.hosts[0].run(f"dirname $(dirname ~/.tf-launch/runs/*/output/{SHARD})").stdout.strip()
        if rsync := tools.program(RSYNC.name):
            found.append(Subject(RSYNC.name, partial(measure_rsync, rig, rsync, f"host1:{output}/")))
        yield [*found, Subject(SSH_TRUE, partial(measure_ssh, rig))]


SSH_GATHER = Benchmark(
    name="ssh-gather",
    title="A checkpoint of 500 MB, brought from the chief's host",
    runs=5,
    quantities=(Quantity(COLD, "s"), Quantity(AGAIN, "s"), Quantity(AT_THE_END, "s")),
    goals=(
        Goal("launch", COLD, 1.25, RSYNC.name),
        Goal("launch", AGAIN, 0.3),
        Goal("launch, in a run", AT_THE_END, 0.3),
    ),
    wants=(SSH, RSYNC),
    subjects=subjects,
    obstacle=obstacle,
)
