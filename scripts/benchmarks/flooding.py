"""Two workers that write as fast as they can, into consoles of different speed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from benchmark import Benchmark, Goal, Quantity, Subject, Tools
from processes import Running, name_of, peak_memory, started
from tools import PEERS, Tool
from workers import meeting

WORKERS = 2
LINES = 1_000_000
FILLERS = (b"x" * 90, b"y" * 90)
"""Each worker writes lines of its own: the same of both within a moment would be shown once."""
LINE = 100
"""Bytes: nine digits, the filler, a newline."""
PATIENCE = 300.0
SLOW_READ, SLOW_PAUSE = 1 << 16, 1 / 256
"""The slow console takes 64 KiB 256 times a second at most: 16 MiB/s."""
LOOK = 0.02

WALL, DAMAGED = "wall time", "lines lost or damaged"
WORKERS_TIME = "from the workers' start to their end"
MEMORY, MEMORY_SUM = "peak memory of the launcher", "peak memory with its agent and guard"
PIECE = 10_000


def write_lines(directory: Path) -> Path:
    """The files that the workers write out, one each."""
    directory.mkdir()
    for number, filler in enumerate(FILLERS):
        with (directory / str(number)).open("wb") as file:
            for start in range(0, LINES, PIECE):
                file.write(b"".join(b"%09d%b\n" % (n, filler) for n in range(start, start + PIECE)))
    return directory


def damaged(output: Path, tag: re.Pattern[bytes]) -> int:
    """How many lines are missing, cut, mixed with others, out of their worker's order, or under a wrong name."""
    expected: dict[bytes, int] = {}
    good = 0
    with output.open("rb") as lines:
        for line in lines:
            prefix = tag.match(line)
            if prefix is None or len(line) - prefix.end() != LINE or line[prefix.end() + 9 : -1] not in FILLERS:
                continue
            number = line[prefix.end() : prefix.end() + 9]
            if number.isdigit():
                good += int(number) == expected.get(prefix[1], 0)
                expected[prefix[1]] = int(number) + 1
    return WORKERS * LINES - good


# ---- consoles
def into_file(tool: Tool, lines: Path, directory: Path) -> dict[str, float]:
    """The console is a file; every line of it is checked."""
    output = directory / "console"
    with output.open("wb") as console:
        numbers = flood(tool, lines, directory, console)
    return {**numbers, DAMAGED: damaged(output, tool.tag)}


def into_pipe(tool: Tool, lines: Path, directory: Path) -> dict[str, float]:
    """The console is `| cat >/dev/null`."""
    read, write = os.pipe()
    with os.fdopen(write, "wb") as console:
        cat = subprocess.Popen(["cat"], stdin=read, stdout=subprocess.DEVNULL)
        os.close(read)
        try:
            return flood(tool, lines, directory, console, console_ends=lambda: cat.wait(PATIENCE))
        finally:
            cat.kill()
            cat.wait()


def into_slow_reader(tool: Tool, lines: Path, directory: Path) -> dict[str, float]:
    """The console reads 16 MiB/s until the workers have ended, then all that is left; the lines are counted."""
    read, write = os.pipe()
    with os.fdopen(write, "wb") as console:
        reader = SlowReader(read)
        try:
            numbers = flood(tool, lines, directory, console, workers_end=reader.hurry, console_ends=reader.join)
        finally:
            console.close()
            reader.hurry()
            reader.join()
    return {**numbers, DAMAGED: abs(WORKERS * LINES - reader.lines)}


class SlowReader(threading.Thread):
    """Reads a pipe to its end and counts the lines; slowly at first."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.lines = 0
        self._fd = fd
        self._in_a_hurry = threading.Event()
        self.start()

    def run(self) -> None:
        """Read."""
        while data := os.read(self._fd, SLOW_READ):
            self.lines += data.count(b"\n")
            self._in_a_hurry.wait(SLOW_PAUSE)
        os.close(self._fd)

    def hurry(self) -> None:
        """From now on, read without a pause."""
        self._in_a_hurry.set()


# ---- the run
def flood(
    tool: Tool,
    lines: Path,
    directory: Path,
    console: IO[bytes],
    *,
    workers_end: Callable[[], object] = lambda: None,
    console_ends: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Let two workers write the lines to `console`, whose end here is closed; all numbers but the damage.

    Args:
        tool: what starts them.
        lines: the directory of the files that they write.
        directory: a fresh one.
        console: the launcher's stdout.
        workers_end: called when both workers have written everything.
        console_ends: returns once the console has taken everything; the wall time ends with it.
    """
    with meeting(directory) as place:
        first, files = shlex.quote(str(directory / "first")), shlex.quote(str(lines))
        writes = f"if mkdir {first} 2>/dev/null; then cat {files}/0; else cat {files}/1; fi"
        worker = place.worker(writes, waits=False)
        with started(tool.argv(worker, WORKERS, directory), directory, stdout=console) as running:
            console.close()
            starts = place.await_reports("started", WORKERS, running, PATIENCE)
            with memory_of(running) as memory:
                finishes = place.await_reports("finished", WORKERS, running, PATIENCE)
                workers_end()
                running.await_end(PATIENCE)
            console_ends()
            wall = time.monotonic() - running.began
    return {
        WALL: wall,
        WORKERS_TIME: max(each.at for each in finishes) - min(each.at for each in starts),
        MEMORY: memory[running.process.pid],
        MEMORY_SUM: sum(memory.values()),
    }


@contextmanager
def memory_of(running: Running) -> Iterator[dict[int, float]]:
    """Peak memory (MB) of the launcher and of what helps it, by pid; complete once the block has ended."""
    helpers = [pid for pid in running.alive() if name_of(pid) in ("launch-agent", "launch-guard")]
    peaks = dict.fromkeys([running.process.pid, *helpers], 0.0)
    over = threading.Event()
    looker = threading.Thread(target=look, args=(peaks, over))
    looker.start()
    try:
        yield peaks
    finally:
        over.set()
        looker.join()


def look(peaks: dict[int, float], over: threading.Event) -> None:
    """The kernel keeps each peak, so a look now and then misses only what came after the last one."""
    while not over.wait(LOOK):
        for pid in peaks:
            peaks[pid] = max(peaks[pid], peak_memory(pid))


@contextmanager
def subjects(tools: Tools, shared: Path) -> Iterator[list[Subject]]:
    """Every launcher into a file and into a pipe; the slow console for ours and the peer that comes nearest."""
    lines = write_lines(shared / "lines")
    consoles = {"to a file": into_file, "to a pipe": into_pipe, "to a slow console": into_slow_reader}
    yield [
        Subject(f"{tool.name} {name}", partial(console, tool, lines), tool.flood_runs_at_most)
        for name, console in consoles.items()
        for tool in (tools.launch, *tools.peers)
        if console is not into_slow_reader or tool.name in ("launch", "GNU parallel")
    ]


FILE, PIPE, SLOW = "launch to a file", "launch to a pipe", "launch to a slow console"

FLOOD = Benchmark(
    name="flood",
    title="2 workers that write 100 MB of 100-byte lines each, as fast as they can",
    runs=5,
    quantities=(
        Quantity(WALL, "s"),
        Quantity(DAMAGED, "lines"),
        Quantity(WORKERS_TIME, "s"),
        Quantity(MEMORY, "MB"),
        Quantity(MEMORY_SUM, "MB"),
    ),
    goals=(
        Goal(FILE, WALL, 1.0, "GNU parallel to a file"),
        Goal(PIPE, WALL, 1.0, "GNU parallel to a pipe"),
        Goal(FILE, DAMAGED, 0),
        Goal(SLOW, DAMAGED, 0),
        Goal(SLOW, WORKERS_TIME, 1.1, FILE),
        *(Goal(subject, MEMORY, 100) for subject in (FILE, PIPE, SLOW)),
        *(Goal(subject, MEMORY_SUM, 100) for subject in (FILE, PIPE, SLOW)),
    ),
    wants=PEERS,
    subjects=subjects,
)
