"""Remedies where a worker, an agent or the launcher runs out of processes, threads or open files. Pure."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from launcher.lazy_pattern import lazy_pattern
from launcher.on_host.agent.limits import in_words, most_processes

MORE_PROCESSES = (
    "allow more processes and threads on {host}: `ulimit -u` in the shell, nproc in /etc/security/limits.conf, "
    "TasksMax= of a systemd service or slice, --pids-limit of a container; or start fewer workers there, or fewer "
    "threads each (OMP_NUM_THREADS, OPENBLAS_NUM_THREADS)"
)
MORE_FILES = (
    "allow more open files on {host}: `ulimit -n` in the shell (as far as `ulimit -Hn`), nofile in "
    "/etc/security/limits.conf, LimitNOFILE= of a systemd service"
)

_PROCESSES = lazy_pattern(
    r"can't start new thread|pthread_create(?:\(\))? failed|Cannot fork\b|Thread creation failed"
    r"|fork: (?:retry: )?Resource temporarily unavailable|what\(\):  ?Resource temporarily unavailable"
    r"|cannot start a process: Resource temporarily unavailable"
)
_FILES = lazy_pattern(r"Too many open files")
_REFUSED = "BlockingIOError: [Errno 11] Resource temporarily unavailable"
"""What Python says where fork is refused; but also where a non-blocking socket has nothing to read."""


def for_shortage(text: str, calls: Sequence[str], host: str) -> str | None:
    """The remedy if the kernel has refused a process, thread or file; None if the text says something else.

    Args:
        text: an exception with its whole message, or lines of a log.
        calls: the lines of the traceback above it.
        host: where it happened.
    """
    refused_fork = _REFUSED in text and any("fork" in call for call in calls)
    if refused_fork or _PROCESSES().search(text):
        return MORE_PROCESSES.format(host=host)
    return MORE_FILES.format(host=host) if _FILES().search(text) else None


def of_this_machine(error: BaseException) -> tuple[str, str] | None:
    """What the launcher itself has run out of, and the remedy; None if the error is another one."""
    here = "this machine"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return f"this machine refuses to start another thread ({most_processes()})", MORE_PROCESSES.format(host=here)
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:
        return f"this machine refuses to start another process: {in_words(error)}", MORE_PROCESSES.format(host=here)
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return f"this machine refuses to open another file: {in_words(error)}", MORE_FILES.format(host=here)
    return None
