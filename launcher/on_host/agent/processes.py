"""The process tree below this process: find, signal and reap it."""

from __future__ import annotations

import os
import signal
import time

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator

KILL_AGAIN = 0.02
"""Seconds between two rounds of SIGKILL: a process may fork after /proc was read and before the signal arrives."""
UNKILLABLE = 10.0
"""Seconds of SIGKILL after which a survivor (another user's process, one that waits for a dead disk) is reported."""

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36


def prctl(option: int, argument: int | bytes) -> None:
    """Set an option of this process. A kernel without that option ignores it."""
    import ctypes  # late: the launcher imports this module, too, and mostly does not need it

    libc = ctypes.CDLL(None)
    libc.prctl(option, ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.c_ulong(argument), 0, 0, 0)


def lacking() -> str:
    """What this machine lacks of the basics (/proc, /dev/null), and the remedy; empty if nothing."""
    try:
        is_ours = os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        is_ours = False
    if not is_ours:
        what = "shows other processes than those around it" if os.path.exists("/proc/1") else "is not mounted"
        return f"/proc {what}, and processes are found and ended by it; mount it: mount -t proc proc /proc"
    if not os.path.exists(os.devnull):
        return f"{os.devnull} is missing; mount /dev, or make it: mknod -m 666 /dev/null c 1 3"
    return ""


def processes() -> dict[int, tuple[int, int]]:
    """Every process of this host: pid -> (pid of its parent, process group)."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as stat:
                    _, parent, group = stat.read().rpartition(b")")[2].split()[:3]
            except (OSError, ValueError):
                continue  # it ended between listdir and open
            found[int(entry)] = (int(parent), int(group))
    return found


def environment(pid: int) -> list[bytes]:
    """A process's environment, `NAME=value` each; empty if it has ended or is another user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as variables:
            return variables.read().split(b"\0")
    except OSError:
        return []


def descendants(root: int, table: dict[int, tuple[int, int]]) -> list[int]:
    """All processes below `root`, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(root, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def signal_descendants(number: int) -> list[int]:
    """Signal everything below this process; return the pids."""
    table = processes()
    below = descendants(os.getpid(), table)
    signal_all(below, number, table)
    return below


def signal_tree(root: int, number: int) -> None:
    """Signal one process below this one, and everything below that."""
    table = processes()
    signal_all([root, *descendants(root, table)], number, table)


def signal_group(group: int, number: int) -> None:
    """Signal the members of a process group that are below this process: the number may have been reused elsewhere."""
    table = processes()
    send_signal([pid for pid in descendants(os.getpid(), table) if table[pid][1] == group], number)


def signal_all(below: list[int], number: int, table: dict[int, tuple[int, int]]) -> None:
    """Signal these processes below this one.

    SIGKILL goes to their process groups, too. A process that keeps forking and exiting has another pid by the time a
    signal to the old one arrives, but the kernel signals a group atomically.
    """
    groups = {table[pid][1] for pid in below if pid in table} - {os.getpgrp()} if number == signal.SIGKILL else set()
    send_signal([-group for group in groups] + below, number)


def send_signal(pids: list[int], number: int) -> None:
    """Signal each process (negative: process group) that still exists and is ours to signal."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def reap() -> Iterator[tuple[int, int]]:
    """Yield (pid, wait status) of each child that has ended.

    A subreaper adopts every orphan below it, so for one "no child" means "no descendant".

    Raises:
        ChildProcessError: there is no child at all.
    """
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        yield pid, status


def has_children() -> bool:
    """Whether this process has a child, including one that has ended and was not reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill_descendants(limit: float = UNKILLABLE) -> list[int]:
    """SIGKILL everything below this process until nothing is left; return what could not be killed."""
    deadline = time.monotonic() + limit
    while True:
        try:
            for _ in reap():
                pass
        except ChildProcessError:
            return []
        left = signal_descendants(signal.SIGKILL)
        if time.monotonic() > deadline:
            return left
        signal.sigtimedwait([signal.SIGCHLD], KILL_AGAIN)


def out_of_memory_kills() -> int:
    """How many processes the kernel's out-of-memory killer has ended on this host so far."""
    try:
        with open("/proc/vmstat", "rb") as vmstat:
            return sum(int(line.split()[1]) for line in vmstat if line.startswith(b"oom_kill "))
    except OSError:
        return 0
