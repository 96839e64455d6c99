"""Whether a worker's processes are idle: they use no CPU, read and write nothing, and wait for no disk.

Measured with TensorFlow 2.21 on Linux 6.18, every second: a worker that waits for a peer when it starts, in a
collective, or in `Server.join` takes 0 to 5 ms of CPU a second (/proc/PID/task/*/schedstat), for heartbeats and
pollers; it reads and writes not one byte (/proc/PID/io, which does not count what TensorFlow sends and receives); its
main thread waits in a futex (/proc/PID/wchan).
"""

from __future__ import annotations

import os

AT_REST = 2.0
"""Idle seconds after a stop signal that show that a worker is not saving anything."""
PATIENCE = 30.0
"""Idle seconds after which a worker that does not listen at its own address is reported."""
BUSY = 0.02
"""Of one core: at least four times what a waiting TensorFlow uses, and a fraction of what real work does."""
TICKS = 2
"""Clock ticks by which a short measurement may overstate the CPU time."""
BYTES = 1024
"""Bytes read and written. Less than that is threads waking each other (gRPC writes 8 bytes to an eventfd)."""


class Rest:
    """Measures how long a process tree has been idle."""

    def __init__(self) -> None:
        self.since = 0.0
        self.before: Use | None = None

    def measure(self, pids: list[int], output: int, now: float) -> float:
        """Return for how many seconds the tree has been idle, as far as the measurements so far show.

        Args:
            pids: all processes of the tree.
            output: a number that grows with everything that they print and report.
            now: the time in seconds.
        """
        use = Use(pids, output)
        if (
            self.before is None
            or not use.is_idle_since(self.before, now - self.since)
            or any(map(has_busy_thread, pids))
        ):
            self.before, self.since = use, now
        return now - self.since


class Use:
    """What the processes of a tree have used in total."""

    def __init__(self, pids: list[int], output: int) -> None:
        self.pids = set(pids)
        self.output = output
        self.ticks = sum(map(cpu_ticks, pids))
        self.bytes = sum(map(bytes_moved, pids))

    def is_idle_since(self, before: Use, seconds: float) -> bool:
        """Whether nothing was done in the `seconds` since `before`. A process that started or ended counts as work."""
        allowed = TICKS + BUSY * seconds * os.sysconf("SC_CLK_TCK")
        return (
            (self.pids, self.output) == (before.pids, before.output)
            and self.ticks - before.ticks <= allowed
            and self.bytes - before.bytes <= BYTES
        )


def cpu_ticks(pid: int) -> int:
    """CPU time of a process with all its threads, in clock ticks; 0 if it has ended."""
    fields = stat_fields(f"/proc/{pid}/stat")
    return int(fields[11]) + int(fields[12]) if fields else 0


def bytes_moved(pid: int) -> int:
    """Bytes that a process has read and written by system calls; 0 if the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/io", "rb") as io:
            return sum(int(line.split()[1]) for line in io if line.startswith((b"rchar", b"wchar")))
    except OSError:
        return 0


def has_busy_thread(pid: int) -> bool:
    """Whether a thread is running or runnable (R), or waits for a disk (D): saving to a dead NFS is not idleness."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    return any(stat_fields(f"/proc/{pid}/task/{thread}/stat")[:1] in ([b"R"], [b"D"]) for thread in threads)


def waits_for_lock(pid: int) -> bool:
    """Whether the main thread waits in a futex, as TensorFlow does for its peers, and not in a sleep or for a child.

    True also if the kernel does not tell (it says 0).
    """
    try:
        with open(f"/proc/{pid}/wchan", "rb") as channel:
            name = channel.read()
    except OSError:
        return True
    return name in (b"", b"0") or b"futex" in name


def tensorflow_process(pids: list[int]) -> int | None:
    """The first of these processes that has TensorFlow loaded; None if none has. Parents must precede children."""
    return next((pid for pid in pids if has_tensorflow(pid)), None)


def has_tensorflow(pid: int) -> bool:
    """Whether TensorFlow is loaded in a process."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as maps:
            return b"/libtensorflow" in maps.read()
    except OSError:
        return False


def stat_fields(path: str) -> list[bytes]:
    """The fields of a `stat` file after the process's name, its state first; empty if it has ended."""
    try:
        with open(path, "rb") as stat:
            return stat.read().rpartition(b")")[2].split()
    except OSError:
        return []
