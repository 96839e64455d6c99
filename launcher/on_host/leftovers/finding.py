"""Finds processes of runs, by the run id in their environment and never by a name, and directories of runs."""

from __future__ import annotations

import os
import re
import time

from launcher.on_host.agent.processes import environment, processes
from launcher.on_host.leftovers.messages import LeftDirectory, LeftProcess

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator

RUN_DIRECTORY = re.compile(r"\d{8}-\d{6}-.+-[0-9a-f]{8}(?:[0-9a-f]{8})?")
"""A run id, which names the run's directory on hosts behind ssh. It ends with 16 digits (8 in older versions)."""
AGENT = "launch-agent"
"""The name of an agent's process."""
LONGEST = 200
"""Characters of a command line that are reported."""


def left_processes() -> list[LeftProcess]:
    """Every process of this user that a run has started, directly or not."""
    parents = {pid: parent for pid, (parent, _) in processes().items() if is_own(pid)}
    own = {os.getpid(), *above(os.getpid(), parents)}
    found = []
    for pid in sorted(parents.keys() - own):
        run = run_of(pid)
        if run is not None:
            agents = (each for each in above(pid, parents) if name_of(each) == AGENT)
            found.append(LeftProcess(run, pid, age_of(pid), command_line_of(pid), next(agents, None)))
    return found


def members(run: str) -> list[LeftProcess]:
    """The processes of one run, without zombies, which have no environment."""
    return [each for each in left_processes() if each.run == run]


def above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """A process's parent, the parent's parent, and so on, as far as they are this user's."""
    while (pid := parents.get(pid, 0)) in parents:
        yield pid


def is_own(pid: int) -> bool:
    """Whether a process is this user's."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.getuid()
    except OSError:
        return False  # it has ended


def run_of(pid: int) -> str | None:
    """The run that a process belongs to."""
    named = (each.partition(b"=") for each in environment(pid))
    return next((os.fsdecode(value) for name, _, value in named if name == b"LAUNCH_RUN_ID"), None)


def name_of(pid: int) -> str:
    return os.fsdecode(contents(f"/proc/{pid}/comm").rstrip(b"\n"))


def command_line_of(pid: int) -> str:
    words = contents(f"/proc/{pid}/cmdline").rstrip(b"\0").replace(b"\0", b" ")
    return words.decode("utf-8", "replace")[:LONGEST]


def age_of(pid: int) -> float:
    """Seconds since a process was started; 0 if it has ended."""
    fields = contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if not fields:
        return 0.0
    return float(contents("/proc/uptime").split()[0]) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def contents(path: str) -> bytes:
    """The content of a file of /proc; empty if its process has ended or is another user's."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


# ---- directories
def left_directories(runs_dir: str, running: list[LeftProcess]) -> Iterator[LeftDirectory]:
    """The directories of runs, oldest first. `running`: the processes of all runs."""
    try:
        entries = sorted(os.scandir(runs_dir), key=lambda entry: entry.name)
    except OSError:
        return
    used = [place for pid in processes() if pid != os.getpid() and is_own(pid) for place in places_of(pid)]
    for entry in entries:
        if RUN_DIRECTORY.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
            path = os.path.realpath(entry.path)
            is_used = any(each.run == entry.name for each in running) or any(
                place == path or place.startswith(f"{path}/") for place in used
            )
            size, changed = measured(entry.path)
            yield LeftDirectory(entry.name, entry.path, size, time.time() - changed, is_used)


def places_of(pid: int) -> list[str]:
    """A process's working directory and open files. An agent keeps the directory of its run open."""
    places = [f"/proc/{pid}/cwd"]
    try:
        places += [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []
    return [target for target in map(target_of, places) if target.startswith("/")]


def target_of(link: str) -> str:
    """The target of a link; empty if it is gone."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def measured(path: str) -> tuple[int, float]:
    """Bytes of all files below a directory, and when the newest of them was modified."""
    size, newest = 0, os.lstat(path).st_mtime
    for directory, _, names in os.walk(path):
        for name in names:
            try:
                found = os.lstat(os.path.join(directory, name))
            except OSError:
                continue
            size, newest = size + found.st_size, max(newest, found.st_mtime)
    return size, newest
