"""Limits of open files and processes. The agent raises its own limit of files; workers get the user's."""

from __future__ import annotations

import errno
import os
import resource

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator

CGROUPS = "/sys/fs/cgroup"
NEARLY_FULL = 8
"""A control group this close to its limit of processes may be why the kernel has refused one."""

_before: tuple[int, int] | None = None
"""The limits of open files before this process raised its own."""


def raise_open_files() -> None:
    """Raise the soft limit of open files to the hard one: there are several files for each host, port and worker."""
    global _before
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        _before = soft, hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def restore_open_files(pid: int = 0) -> None:
    """Give a child (0: this process) the user's limits back: with a high one, some programs fail or become slow.

    `select` cannot handle large descriptors, and some programs close every possible descriptor when they start.
    """
    if _before is not None:
        try:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _before)
        except OSError:
            return  # it has ended already, or may not be changed: then it has the higher limit


def in_words(error: OSError) -> str:
    """The error's text, and which limit caused it."""
    said = error.strerror or str(error)
    if error.errno == errno.EMFILE:
        return f"{said} (a process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} here)"
    return f"{said} ({most_processes()})" if error.errno == errno.EAGAIN else said


def most_processes() -> str:
    """The limit of processes and threads that was probably reached."""
    for path in groups():
        most, now = number_in(f"{path}/pids.max"), number_in(f"{path}/pids.current")
        if most is not None and now is not None and now + NEARLY_FULL >= most:
            return f"{path}/pids.max allows {most} processes and threads"
    allowed = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if allowed == resource.RLIM_INFINITY:
        return "the kernel has no more: kernel.threads-max, kernel.pid_max"
    return f"its user may have {allowed} processes and threads: ulimit -u"


def groups() -> Iterator[str]:
    """The directories of this process's control groups, from the innermost outwards."""
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
    """The number in a file; None without one (`max` means no limit)."""
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
