"""How many files and processes there may be: the agent takes as many files as it may get, workers what the user has."""

from __future__ import annotations

import errno
import os
import resource

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator

CGROUPS = "/sys/fs/cgroup"
NEARLY_FULL = 8
"""Processes that a group lacks to its limit when that may be why the kernel has refused one."""

_before: tuple[int, int] | None = None
"""This process's limits of open files, before it raised its own."""


def raise_open_files() -> None:
    """Let this process open as many files as it may: it has several for each host, port and worker."""
    global _before
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        _before = soft, hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def restore_open_files(pid: int = 0) -> None:
    """Give a child (0: this process) the limits that the user has: programs differ by it (select, closing all)."""
    if _before is not None:
        try:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _before)
        except OSError:
            return  # it has ended already, or its group forbids it: it does with more


def in_words(error: OSError) -> str:
    """What the system says, and which limit it means."""
    said = error.strerror or str(error)
    if error.errno == errno.EMFILE:
        return f"{said} (a process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} here)"
    return f"{said} ({most_processes()})" if error.errno == errno.EAGAIN else said


def most_processes() -> str:
    """Which limit of processes and threads is near."""
    for path in groups():
        most, now = number_in(f"{path}/pids.max"), number_in(f"{path}/pids.current")
        if most is not None and now is not None and now + NEARLY_FULL >= most:
            return f"{path}/pids.max allows {most} processes and threads"
    allowed = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if allowed == resource.RLIM_INFINITY:
        return "the kernel has no more: kernel.threads-max, kernel.pid_max"
    return f"its user may have {allowed} processes and threads: ulimit -u"


def groups() -> Iterator[str]:
    """The directories of the control groups that this process is in, from its own to the outermost."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return
    for _, controllers, path in lines:
        if controllers in ("", "pids"):
            root = os.path.join(CGROUPS, controllers)
            while path.strip("/"):
                yield root + path
                path = os.path.dirname(path)
            yield root


def number_in(path: str) -> int | None:
    """The number in a file; None: there is none, as where everything is allowed."""
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
