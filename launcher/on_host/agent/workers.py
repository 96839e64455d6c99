"""One worker: its process, its log, its reports of progress."""

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
    """A worker's process could not be created; the message says why."""


class Worker:
    """One task's process, and the two files that it writes for the launcher."""

    def __init__(self, name: str, pid: int, port: int, log: int, progress: str, logged: int) -> None:
        """Nothing is told yet.

        Args:
            name: the task's slug.
            pid: the process.
            port: where it is to listen.
            log: its log, open to be read.
            progress: the path of its reports.
            logged: the bytes that an earlier process of the task has left in its log, all of them told already.
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
        """Tell the rest of what the task's earlier process wrote, and end what that one has left behind."""
        self.log.go_on_after(former.log)
        self.reports = former.reports
        signal_group(former.pid, signal.SIGKILL)

    def runs_tensorflow(self) -> bool:
        """Whether TensorFlow is loaded in its process, or in one that it has started."""
        return tensorflow_process([self.pid, *descendants(self.pid, processes())]) is not None

    def told_bytes(self) -> int:
        """How much it has printed and reported so far."""
        return self.log.size + self.reports.count


def start_worker(wanted: WorkerStart) -> Worker:
    """Create a worker's process in a session of its own, its stdout and stderr going straight to its log file.

    Raises:
        StartError: no such program, no such working directory, no room for the log...
    """
    log, shown = opened_files(wanted.log, wanted.env["LAUNCH_OUTPUT_DIR"])
    logged = os.fstat(log).st_size
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pid = created(wanted, (null, log, log))
    except StartError:
        os.close(shown)
        raise
    finally:
        os.close(null)
        os.close(log)
    return Worker(wanted.task, pid, wanted.port, shown, wanted.progress, logged)


def opened_files(log: str, output: str) -> tuple[int, int]:
    """Make what a worker writes to: its log, opened to be written and to be read, and the output directory.

    They lie in the run's directory: `attempt-N/TASK.log`, and a directory, or a link of the user's to one.

    Raises:
        StartError: no room for it, something else is in its place...
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
    """Make a directory in the run's, unless there is one."""
    try:
        os.mkdir(name, 0o700, dir_fd=run)
    except FileExistsError:
        os.close(os.open(name, os.O_PATH | os.O_DIRECTORY, dir_fd=run))


def created(wanted: Program, streams: tuple[int, int, int]) -> int:
    """Create a process in a session of its own, with these as stdin, stdout and stderr; return its pid.

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
    """In the child: become the program, or tell the agent why not."""
    doing = "start"
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != agent:
            os._exit(127)
        # an ignored or blocked signal (nohup, a shell's `&`) is inherited through exec and would make a worker deaf
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
        # a Python finds its virtual environment by what it is called
        os.execvpe(program, [program, *wanted.argv[1:]], environment)
    except BaseException as error:
        reason = why_not(error, doing) if isinstance(error, OSError) else repr(error)
        os.write(error_write, f"cannot {doing}: {reason}".encode("utf-8", "surrogateescape"))
    os._exit(127)


def why_not(error: OSError, doing: str) -> str:
    """What the system says, and what it does not say of a program's file that is there and cannot be run."""
    action, _, path = doing.partition(" ")
    found = what_is_wrong(path, error.errno) if action == "run" and os.sep in path else ""
    return f"{error.strerror} ({found})" if found else str(error.strerror)


def what_is_wrong(path: str, code: int | None) -> str:
    """With a file that exec has refused to run; empty: nothing that the system's own words do not tell."""
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
