"""One worker: its process, its log, its progress reports."""

from __future__ import annotations

import errno
import os
import signal

from launcher.on_host.agent.below import appended_below, directory_below
from launcher.on_host.agent.limits import in_words, restore_open_files
from launcher.on_host.agent.log import Log
from launcher.on_host.agent.own_directory import UnsafeError, reopened
from launcher.on_host.agent.processes import (
    PR_SET_PDEATHSIG,
    descendants,
    out_of_memory_kills,
    prctl,
    processes,
    signal_group,
)
from launcher.on_host.agent.reports import Reports
from launcher.on_host.agent.rest import tensorflow_process

if False:  # names for type checkers only: typing costs start-up time
    from typing import NoReturn, Protocol

    from launcher.on_host.agent.messages import WorkerStart

    class Program(Protocol):
        @property
        def argv(self) -> list[str]: ...
        @property
        def env(self) -> dict[str, str]: ...
        @property
        def cwd(self) -> str: ...


class StartError(Exception):
    """A process could not be started; the message says why."""


class Worker:
    """One task's process, and the two files that it writes for the launcher: log and progress."""

    def __init__(self, name: str, pid: int, port: int, log: int, progress: str, logged: int) -> None:
        """Begin with nothing shipped.

        Args:
            name: the task's slug.
            pid: the process.
            port: where it should listen.
            log: its log, open for reading.
            progress: the path of its progress file.
            logged: bytes of its log that an earlier process of the task has written, and that were shipped already.
        """
        self.name = name
        self.pid = pid
        self.port = port
        self.listens = False
        self.log = Log(log, logged)
        self.reports = Reports(progress)
        self.exited = False
        self.kills_before = out_of_memory_kills()

    def go_on_after(self, former: Worker) -> None:
        """Ship the rest of the earlier process's output first, and kill what that process has left behind."""
        self.log.go_on_after(former.log)
        self.reports = former.reports
        signal_group(former.pid, signal.SIGKILL)

    def runs_tensorflow(self) -> bool:
        """Whether its process, or one below it, has TensorFlow loaded."""
        return tensorflow_process([self.pid, *descendants(self.pid, processes())]) is not None

    def output_bytes(self) -> int:
        """Bytes that it has printed and reported so far."""
        return self.log.size + self.reports.count


def start_worker(wanted: WorkerStart) -> Worker:
    """Start a worker in a session of its own. Its stdout and stderr go straight to its log file.

    No pipe: a pipe that nobody reads for a while would block the worker.

    Raises:
        StartError: no such program, no such working directory, no room for the log...
    """
    log, log_reader = opened_files(wanted.log, wanted.env["LAUNCH_OUTPUT_DIR"])
    logged = os.fstat(log).st_size
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pid = created(wanted, (null, log, log))
    except StartError:
        os.close(log_reader)
        raise
    finally:
        os.close(null)
        os.close(log)
    return Worker(wanted.task, pid, wanted.port, log_reader, wanted.progress, logged)


def opened_files(log: str, output: str) -> tuple[int, int]:
    """Make a worker's log and its output directory; return the log open for writing, and open for reading.

    Both are in the run's directory: `attempt-N/TASK.log`, and a directory, or the user's link to one.

    Raises:
        StartError: no room, something else is in the way...
    """
    attempt, name = os.path.split(log)
    at = output
    try:
        run = reopened(os.path.dirname(attempt))
        try:
            make_output(run, os.path.basename(output))
            at = log
            directory = directory_below(run, os.path.basename(attempt))
        finally:
            os.close(run)
        try:
            return appended_below(directory, name), os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
        finally:
            os.close(directory)
    except OSError as error:
        what = "create the log file" if at == log else "make the output directory"
        why = f" ({error.filename})" if isinstance(error, UnsafeError) and error.filename != at else ""
        raise StartError(f"cannot {what} {at}: {error.strerror}{why}") from error


def make_output(run: int, name: str) -> None:
    """Make a directory in the run's directory unless there is one."""
    try:
        os.mkdir(name, 0o700, dir_fd=run)
    except FileExistsError:
        os.close(os.open(name, os.O_PATH | os.O_DIRECTORY, dir_fd=run))


def created(wanted: Program, streams: tuple[int, int, int]) -> int:
    """Start a program in a session of its own, with these as stdin, stdout and stderr; return its pid.

    It forks by itself because of what the child has to do before exec (`become`). The child reports a failure through
    a pipe that a successful exec closes.

    Raises:
        StartError: no such program, no such working directory...
    """
    try:
        error_read, error_write = os.pipe()
    except OSError as error:
        raise StartError(f"cannot start a process: {in_words(error)}") from error
    agent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(error_read)
        os.close(error_write)
        raise StartError(f"cannot start a process: {in_words(error)}") from error
    if pid == 0:
        become(wanted, agent, streams, error_write)
    os.close(error_write)
    with os.fdopen(error_read, "rb") as reason:  # closed by a successful exec
        said = reason.read()
    if said:
        os.waitpid(pid, 0)
        raise StartError(said.decode("utf-8", "replace"))
    return pid


def become(wanted: Program, agent: int, streams: tuple[int, int, int], error_write: int) -> NoReturn:
    """In the child: become the program, or report through the pipe why not."""
    doing = "start"
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != agent:
            os._exit(127)
        # Ignored and blocked signals (nohup, a shell's `&`) would be inherited through exec.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for target, source in enumerate(streams):
            os.dup2(source, target)
        restore_open_files()
        environment = {**os.environ, **wanted.env, "LAUNCH_PID": str(os.getpid())}
        doing = f"enter the working directory {wanted.cwd}"
        os.chdir(os.path.expanduser(wanted.cwd))
        environment["PWD"] = os.getcwd()
        program = os.path.expanduser(wanted.argv[0])
        doing = f"run {program}"
        # The full path as argv[0]: by it, a Python finds its virtual environment.
        os.execvpe(program, [program, *wanted.argv[1:]], environment)
    except BaseException as error:
        reason = why_not(error, doing) if isinstance(error, OSError) else repr(error)
        os.write(error_write, f"cannot {doing}: {reason}".encode("utf-8", "surrogateescape"))
    os._exit(127)


def why_not(error: OSError, doing: str) -> str:
    """The error's text, and what it leaves open if a program's file exists but cannot be run."""
    action, _, path = doing.partition(" ")
    found = what_is_wrong(path, error.errno) if action == "run" and os.sep in path else ""
    return f"{error.strerror} ({found})" if found else str(error.strerror)


def what_is_wrong(path: str, code: int | None) -> str:
    """What is wrong with a file that exec has refused; empty if the error's text says enough."""
    if os.path.isdir(path):
        return "it is a directory"
    if code == errno.EACCES and os.path.exists(path) and not os.access(path, os.X_OK):
        return "it is not executable"
    try:
        with open(path, "rb") as file:
            first = file.readline(256).rstrip(b"\n")
    except OSError:
        return ""
    if first.startswith(b"#!"):
        return f"its first line is {first.decode('utf-8', 'replace')!r}, and that program cannot be run"
    if code != errno.ENOEXEC:
        return ""
    if first.startswith(b"\x7fELF"):
        return "it is built for another kind of machine"
    return "its first line has no #!" if first else "it is empty"
