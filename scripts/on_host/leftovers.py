"""What of tf-launch is on this host: processes of runs, and directories of runs. Also ends and removes them.

`find_leftovers.py` sends this to a bare `python3` (3.9 or later) of any host; its request, one JSON object, follows
over stdin. Processes are told by the run id in their environment, never by a name; only the user's own are looked at.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

ANSWER = "\0tf-launch answer "
"""Stands before the answer; what a login shell printed comes before it."""
RUN_DIRECTORY = re.compile(r"\d{8}-\d{6}-.+-[0-9a-f]{8}(?:[0-9a-f]{8})?")
"""A run's directory on a host behind ssh is called by the run id, which ends with 16 digits (8 in older versions)."""
AGENT = "launch-agent"
STOP_REQUEST = signal.SIGUSR1
"""What an agent takes for this request (`launcher/on_host/agent/loop.py`)."""
LONGEST = 200
"""Characters of a command line that are shown."""
LOOK = 0.05
"""Seconds between two looks at processes that were told to end."""
UNKILLABLE = 10.0
"""Seconds of SIGKILL after which what still lives is told instead."""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked, and tell how it went."""
    top = os.path.expanduser(request["run_dir"])
    if request["do"] == "stop":
        return {"left": stopped(request["run"], request["grace"])}
    if request["do"] == "remove":
        return {"problem": removed(top, request["directory"])}
    found = processes()
    return {"processes": found, "directories": list(directories(top, found)), "run_dir": top}


# ---- processes
def processes() -> list[dict[str, Any]]:
    """Every process of this user that a run has started, or that such a process has; `agent`: the living one above."""
    table = {pid: about for pid in pids() if (about := status(pid)) is not None}
    own = {os.getpid(), *ancestors(os.getpid(), table)}
    found = []
    for pid, (_, _, age) in sorted(table.items()):
        run = None if pid in own else run_of(pid)
        if run is not None:
            agent = next((each for each in ancestors(pid, table) if table[each][0] == AGENT), None)
            found.append({"run": run, "pid": pid, "age": age, "words": words_of(pid), "agent": agent})
    return found


def pids() -> list[int]:
    """All processes of this user."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.stat(f"/proc/{entry}").st_uid == os.getuid():
                found.append(int(entry))
        except OSError:
            continue  # it has ended
    return found


def status(pid: int) -> tuple[str, int, float] | None:
    """A process's name, parent and age in seconds; None: it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            first, _, rest = stat.read().rpartition(")")
        with open("/proc/uptime", encoding="ascii") as uptime:
            now = float(uptime.read().split()[0])
    except OSError:
        return None
    fields = rest.split()
    return first.partition("(")[2], int(fields[1]), now - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def ancestors(pid: int, table: dict[int, tuple[str, int, float]]) -> Iterator[int]:
    """Parent, its parent... as far as they are this user's."""
    while pid in table:
        pid = table[pid][1]
        if pid in table:
            yield pid


def run_of(pid: int) -> str | None:
    """The run that a process belongs to."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            found = re.search(rb"(?:^|\0)LAUNCH_RUN_ID=([^\0]*)", environ.read())
    except OSError:
        return None
    return os.fsdecode(found[1]) if found else None


def words_of(pid: int) -> str:
    """A process's command line, shortened."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
            return cmdline.read(4 * LONGEST).rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")[:LONGEST]
    except OSError:
        return ""


def stopped(run: str, grace: float) -> list[int]:
    """End all processes of a run: SIGTERM, after `grace` seconds SIGKILL. What could not be ended.

    Where an agent lives, its launcher is asked to stop the run: it does so on every host, and knows that the run was
    stopped. It could not tell a worker that exits with 0 at a SIGTERM of ours from one that is done.
    """
    under_way = [each for each in members(run) if each["agent"]]
    for agent in {each["agent"] for each in under_way}:
        with contextlib.suppress(OSError):  # it has ended
            os.kill(agent, STOP_REQUEST)
    send(run, signal.SIGTERM, spared=frozenset(each["pid"] for each in under_way))
    wait_for_end(run, grace)
    until = time.monotonic() + UNKILLABLE
    while (left := send(run, signal.SIGKILL)) and time.monotonic() < until:
        wait_for_end(run, LOOK)
    return left


def wait_for_end(run: str, seconds: float) -> None:
    """Return once the run has no process any more, or when the time is over."""
    until = time.monotonic() + seconds
    while members(run) and time.monotonic() < until:
        time.sleep(LOOK)


def members(run: str) -> list[dict[str, Any]]:
    """The processes of one run. A zombie is none: it has no environment."""
    return [each for each in processes() if each["run"] == run]


def send(run: str, number: int, spared: frozenset[int] = frozenset()) -> list[int]:
    """Signal every process of the run but those that are spared; which they were."""
    sent = []
    for pid in {each["pid"] for each in members(run)} - spared:
        try:
            if run_of(pid) == run:
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # a stopped process takes no other signal
                sent.append(pid)
        except OSError:
            continue  # it has ended
    return sent


# ---- directories
def directories(top: str, running: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The directories of runs, the oldest first."""
    try:
        entries = sorted(os.scandir(top), key=lambda entry: entry.name)
    except OSError:
        return
    used = [path for pid in pids() for path in places_of(pid)]
    for entry in entries:
        if RUN_DIRECTORY.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
            path = os.path.realpath(entry.path)
            live = any(each["run"] == entry.name for each in running) or any(
                place == path or place.startswith(f"{path}/") for place in used
            )
            size, changed = measured(entry.path)
            age = time.time() - changed
            yield {"name": entry.name, "path": entry.path, "bytes": size, "age": age, "live": live}


def places_of(pid: int) -> list[str]:
    """Where a process works, and what it has open. An agent has the directory of its run open."""
    if pid == os.getpid():
        return []
    places = [f"/proc/{pid}/cwd"]
    try:
        places += [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []
    return [target for place in places if (target := target_of(place)).startswith("/")]


def target_of(link: str) -> str:
    """Where a link points to."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def measured(path: str) -> tuple[int, float]:
    """Bytes of all files below a directory, and when the newest of them was changed."""
    size, newest = 0, os.lstat(path).st_mtime
    for directory, _, names in os.walk(path):
        for name in names:
            try:
                found = os.lstat(os.path.join(directory, name))
            except OSError:
                continue
            size, newest = size + found.st_size, max(newest, found.st_mtime)
    return size, newest


def removed(top: str, name: str) -> str:
    """Delete a run's directory; why not, if not."""
    for each in directories(top, processes()):
        if each["name"] == name:
            if each["live"]:
                return "its run is under way"
            try:
                shutil.rmtree(each["path"])
            except OSError as error:
                return f"{error.filename}: {error.strerror}"
            return ""
    return "it is not there any more"


if __name__ == "__main__":
    print(ANSWER + json.dumps(main(json.loads(sys.stdin.buffer.read()))), flush=True)
