"""The program beside the workers of one host.

It is sent as text to a bare `python3` (3.9 or later) and needs nothing but the standard library. The launcher speaks to
it over stdin and stdout in frames (a JSON head, raw bytes after it), so that no value ever stands on a command line.

Two processes guard each other. The *agent* starts the workers, ships their logs, and stops them. Its parent, the
*guard*, does nothing but wait: when the agent dies, however it dies, the guard kills all that is left. When the guard
dies, the agent does. Both are subreapers (prctl(2)), so a worker's child stays in reach after setsid, nohup or a double
fork; each worker also dies with the agent by PR_SET_PDEATHSIG, should both be killed in one stroke.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import struct
import sys
import time

if False:  # names for type checkers only: typing costs start-up time
    import socket
    from collections.abc import Iterator
    from typing import Any, NoReturn

GREETING = b"\n\0tf-launch agent 1\n"
"""Comes before the first frame; whatever a login shell printed stands in front of it."""
FRAME = struct.Struct(">II")
"""Length of the JSON head, length of the body."""

WINDOW = 1 << 20
"""Bytes of a worker's log that may be on their way to the console. A slow reader makes the log wait, not the worker."""
CHUNK = 1 << 18
"""Bytes of a log sent in one frame."""
TAIL = 1 << 15
"""Bytes of a log's end that go with the news of a worker's exit."""
BACKLOG = 1 << 20
"""Bytes waiting in the agent to be written to the launcher, above which no more log is read."""

BUSY_POLL, IDLE_POLL = 0.01, 0.1
"""Seconds between looks at the logs: just after something came, and at rest."""
ORPHAN_GRACE = 0.3
"""Seconds between SIGTERM and SIGKILL when the launcher is gone: nobody will collect what a worker could still save."""
KILL_AGAIN = 0.02
"""Seconds between two rounds of SIGKILL: a process may have forked between a look at /proc and the signal."""
UNKILLABLE = 10.0
"""Seconds of SIGKILL after which what still lives (another user's process, a dead disk) is reported instead."""

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36


# ---------------------------------------------------------------- framing, also the launcher's end
def encode(head: dict[str, Any], body: bytes = b"") -> bytes:
    """One frame: a JSON object and raw bytes after it."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return FRAME.pack(len(text), len(body)) + text + body


class Decoder:
    """Cuts a stream of bytes into frames, wherever reads happened to split them."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Take the next bytes; yield each (head, body) that they complete."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= FRAME.size:
            head_length, body_length = FRAME.unpack_from(self._buffer, start)
            body_at = start + FRAME.size + head_length
            if len(self._buffer) < body_at + body_length:
                break
            with memoryview(self._buffer) as view:  # a slice of the bytearray itself would copy the body twice
                head = json.loads(bytes(view[start + FRAME.size : body_at]))
                body = bytes(view[body_at : body_at + body_length])
            yield head, body
            start = body_at + body_length
        del self._buffer[:start]


# ---------------------------------------------------------------- the process tree
def prctl(option: int, argument: int | bytes) -> None:
    """Set an option of this process; a kernel without it leaves things as they are."""
    import ctypes  # here, and socket below: the launcher, which imports this file for its framing, needs neither

    libc = ctypes.CDLL(None)
    libc.prctl(option, ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.c_ulong(argument), 0, 0, 0)


def processes() -> dict[int, tuple[int, int]]:
    """Every process of this host: pid -> (parent's pid, process group)."""
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


def descendants(root: int, table: dict[int, tuple[int, int]]) -> list[int]:
    """All processes below `root`, children before grandchildren."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(root, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def signal_descendants(number: int) -> list[int]:
    """Signal everything below this process; return what there was.

    SIGKILL goes to whole process groups, too: a process that hops from pid to pid (it forks, the parent ends) is gone
    when a signal to a pid arrives, but the kernel signals a group in one stroke.
    """
    table = processes()
    below = descendants(os.getpid(), table)
    groups = {table[pid][1] for pid in below} - {os.getpgrp()} if number == signal.SIGKILL else set()
    send_signal([-group for group in groups] + below, number)
    return below


def send_signal(pids: list[int], number: int) -> None:
    """Signal each process (negative: process group) that still exists and is ours to signal."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def reap() -> Iterator[tuple[int, int]]:
    """Yield (pid, wait status) of each child that has ended. Raises ChildProcessError once there is no child at all.

    A subreaper inherits every orphan below it, so "no child" means "no descendant".
    """
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        yield pid, status


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


# ---------------------------------------------------------------- ports
def hold_port(port: int) -> socket.socket:
    """Bind `port` (0: any free one) and keep it for a worker.

    The bind itself is exclusive: SO_REUSEPORT is set only afterwards, so two runs can never share a port by accident,
    while the worker (TensorFlow's gRPC server under TF_GRPC_REUSE_PORT=true) can still join the one that is held.

    Raises:
        OSError: the port is taken.
    """
    import socket

    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if port:
            bind_exclusively(held, port)
        else:
            held.bind(("0.0.0.0", 0))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except BaseException:
        held.close()
        raise
    return held


def bind_exclusively(held: socket.socket, port: int) -> None:
    """Bind a port that nobody holds, though packets of an earlier run may still be on their way to it (TIME_WAIT).

    SO_REUSEADDR passes over those, but also over another run that does the same at this moment: so each run takes its
    turn, by a name of that port in the abstract namespace of this network.
    """
    import socket

    with socket.socket(socket.AF_UNIX) as turn:
        turn.bind(f"\0tf-launch port {port}")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("0.0.0.0", port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)


def hold_ports(names: list[str], first: int, last: int) -> dict[str, socket.socket]:
    """One port for each name, from `first` to `last` (both 0: any free port).

    Raises:
        OSError: there are not enough free ports in the range.
    """
    held: dict[str, socket.socket] = {}
    candidates = iter(range(first, last + 1) if first else [0] * len(names))
    for port in candidates:
        if len(held) == len(names):
            break
        try:
            held[names[len(held)]] = hold_port(port)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    if len(held) < len(names):
        close_sockets(held)
        raise OSError(errno.EADDRINUSE, f"{len(names)} free ports are needed in {first}-{last}, {len(held)} were found")
    return held


def close_sockets(held: dict[str, socket.socket]) -> None:
    """Give the held ports back."""
    for each in held.values():
        each.close()


# ---------------------------------------------------------------- one worker
class StartError(Exception):
    """A worker's process could not be created; the message says why."""


class Worker:
    """One task's process: its pid, its log file, and how much of both files has been told to the launcher."""

    def __init__(self, name: str, pid: int, log: str, progress: str) -> None:
        self.name = name
        self.pid = pid
        self.log = log
        self.progress = progress
        self.log_fd = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        self.shipped = 0
        self.acknowledged = 0
        self.progress_read = 0
        self.exited = False
        self.kills_before = out_of_memory_kills()

    def next_chunk(self) -> bytes:
        """The next bytes of the log, within the window."""
        room = min(CHUNK, WINDOW - (self.shipped - self.acknowledged))
        return os.pread(self.log_fd, room, self.shipped) if room > 0 else b""

    def drained(self) -> bool:
        """Whether every byte of the log has been shipped."""
        return self.shipped >= os.fstat(self.log_fd).st_size

    def tail(self) -> bytes:
        """The end of the log, as it stands now."""
        size = os.fstat(self.log_fd).st_size
        return os.pread(self.log_fd, TAIL, max(0, size - TAIL))

    def newest_progress(self) -> bytes:
        """The last whole line that came into the progress file since the last look, or nothing."""
        try:
            with open(self.progress, "rb") as file:
                file.seek(self.progress_read)
                lines, newline, _ = file.read().rpartition(b"\n")
        except OSError:
            return b""
        self.progress_read += len(lines) + len(newline)
        return lines.rpartition(b"\n")[2]


def start_worker(job: dict[str, Any]) -> Worker:
    """Create a worker's process in a session of its own, its stdout and stderr going straight to its log file.

    Raises:
        StartError: no such program, no such working directory, no room for the log...
    """
    try:
        os.makedirs(os.path.dirname(job["log"]), mode=0o700, exist_ok=True)
        log_fd = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"cannot create the log file {job['log']}: {error.strerror}") from error
    error_read, error_write = os.pipe()
    agent = os.getpid()
    pid = os.fork()
    if pid == 0:
        exec_worker(job, agent, log_fd, error_write)
    os.close(log_fd)
    os.close(error_write)
    with os.fdopen(error_read, "rb") as reason:  # closed by a successful exec
        said = reason.read()
    if said:
        os.waitpid(pid, 0)
        raise StartError(said.decode("utf-8", "replace"))
    return Worker(job["task"], pid, job["log"], job["progress"])


def exec_worker(job: dict[str, Any], agent: int, log_fd: int, error_write: int) -> NoReturn:
    """In the child: become the worker, or tell the agent why not."""
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
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log_fd, 1), (log_fd, 2)):
            os.dup2(source, target)
        environment = {**os.environ, **job["env"]}
        doing = f"enter the working directory {job['cwd']}"
        os.chdir(os.path.expanduser(job["cwd"]))
        environment["PWD"] = os.getcwd()
        program = os.path.expanduser(job["argv"][0])
        doing = f"run {program}"
        os.execvpe(program, job["argv"], environment)
    except BaseException as error:
        reason = error.strerror if isinstance(error, OSError) else repr(error)
        os.write(error_write, f"cannot {doing}: {reason}".encode())
    os._exit(127)


# ---------------------------------------------------------------- the agent
class Agent:
    """One loop over stdin, stdout, signals and clocks; it owns every worker of this host."""

    def __init__(self, guard_gone: int) -> None:
        self.guard_gone: int | None = guard_gone
        self.workers: dict[str, Worker] = {}
        self.held: dict[str, socket.socket] = {}
        self.outgoing: list[bytes] = []
        self.outgoing_bytes = 0
        self.connected = True
        self.lease = 15.0
        self.lease_until = time.monotonic() + self.lease
        self.poll_interval = BUSY_POLL
        self.kill_at: float | None = None
        """When SIGKILL follows; None: nothing is being stopped."""
        self.give_up_at: float | None = None
        self.over = False
        self.decoder = Decoder()
        self.wakeup, wakeup_write = os.pipe()
        for fd in (self.wakeup, wakeup_write, 0, 1):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wakeup_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.told_to_end = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.told_to_end = True

    # ---- what goes to the launcher
    def tell(self, what: str, body: bytes = b"", **fields: Any) -> None:
        """Queue one frame for the launcher; it is written as the pipe takes it."""
        self._queue(encode({"event": what, **fields}, body))

    def _queue(self, data: bytes) -> None:
        if self.connected:
            self.outgoing.append(data)
            self.outgoing_bytes += len(data)

    def flush(self) -> None:
        """Write as much as the launcher takes now."""
        while self.outgoing:
            try:
                written = os.write(1, self.outgoing[0])
            except BlockingIOError:
                return
            except OSError:
                self.abandon("the launcher has closed its end")
                return
            self.outgoing_bytes -= written
            if written == len(self.outgoing[0]):
                del self.outgoing[0]
            else:
                self.outgoing[0] = self.outgoing[0][written:]

    # ---- what comes from the launcher
    def receive(self) -> None:
        """Read stdin and do what it says; its end means that the launcher is gone."""
        try:
            data = os.read(0, 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.abandon("the launcher has gone")
        self.lease_until = time.monotonic() + self.lease
        for head, _ in self.decoder.feed(data):
            getattr(self, "do_" + head.pop("do"))(**head)

    def do_hello(self, lease: float) -> None:
        """The launcher's first word."""
        self.lease = lease
        self.lease_until = time.monotonic() + lease
        facts: dict[str, Any] = {
            "python": ".".join(map(str, sys.version_info[:3])),
            "hostname": os.uname().nodename,
            "pid": os.getpid(),
            "guard": os.getppid(),
            "cpus": len(os.sched_getaffinity(0)),
        }
        self.tell("ready", **facts)

    def do_beat(self) -> None:
        """The launcher lives; reading this has renewed the lease."""

    def do_reserve(self, names: list[str], first: int, last: int) -> None:
        """Hold one port a task; those of an earlier attempt are held still, and serve again."""
        try:
            self.held = self.held or hold_ports(names, first, last)
        except OSError as error:
            self.tell("reservation_failed", reason=error.strerror or str(error))
            return
        self.tell("reserved", ports={name: each.getsockname()[1] for name, each in self.held.items()})

    def do_start(self, jobs: list[dict[str, Any]]) -> None:
        """Start these workers; the first that cannot be started ends the row."""
        self.poll_interval = BUSY_POLL
        for job in jobs:
            try:
                worker = self.workers[job["task"]] = start_worker(job)
            except StartError as error:
                self.tell("start_failed", task=job["task"], reason=str(error))
                return
            self.tell("started", task=worker.name, pid=worker.pid)
            self.flush()

    def do_stop(self, number: int, grace: float) -> None:
        """Signal everything below (0: nothing) and let SIGKILL follow after `grace` seconds, or when it was due."""
        if number:
            send_signal(signal_descendants(number), signal.SIGCONT)  # a stopped process takes no other signal
        kill_at = time.monotonic() + grace
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)
        self.children_changed()

    def do_acknowledge(self, task: str, count: int) -> None:
        """The console has shown `count` more bytes of a log."""
        if task in self.workers:
            self.workers[task].acknowledged += count
            self.poll_interval = BUSY_POLL

    def abandon(self, reason: str) -> None:
        """Nobody will say what to do any more: stop everything, and end. The reason stands on stderr."""
        if self.connected:
            os.write(2, f"{reason}; all workers were stopped\n".encode())
            self.connected = False
            self.outgoing = []
            self.do_stop(signal.SIGTERM, ORPHAN_GRACE)

    # ---- what happens on this host
    def children_changed(self) -> None:
        """Reap; tell of workers that ended; notice when a stop has left nothing behind."""
        try:
            for pid, status in reap():
                self._ended(pid, status)
        except ChildProcessError:
            if self.kill_at is not None:
                self._emptied()

    def _ended(self, pid: int, status: int) -> None:
        for worker in self.workers.values():
            if worker.pid == pid and not worker.exited:
                worker.exited = True
                number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                killed_for_memory = number == signal.SIGKILL and out_of_memory_kills() > worker.kills_before
                self.tell(
                    "exited",
                    worker.tail(),
                    task=worker.name,
                    code=None if number else os.WEXITSTATUS(status),
                    signal=number,
                    out_of_memory=killed_for_memory,
                )
                self.poll_interval = BUSY_POLL

    def _emptied(self) -> None:
        self.kill_at = self.give_up_at = None
        self.tell("empty")
        self.poll_interval = BUSY_POLL
        self.over = self.over or not self.connected

    def ship(self) -> None:
        """Send what the workers wrote since the last look."""
        self.poll_interval = min(self.poll_interval * 1.5, IDLE_POLL)
        for worker in list(self.workers.values()):
            record = worker.newest_progress()
            if record:
                self.tell("progress", record, task=worker.name)
            while self.outgoing_bytes < BACKLOG:
                data = worker.next_chunk()
                if not data:
                    break
                self.tell("log", data, task=worker.name, offset=worker.shipped)
                worker.shipped += len(data)
                self.poll_interval = BUSY_POLL
        if self.kill_at is None:
            self._close_drained_logs()

    def _close_drained_logs(self) -> None:
        """Once nothing can write any more, a log that has been shipped whole is done with."""
        for name, worker in list(self.workers.items()):
            if worker.exited and self._nothing_runs() and worker.drained():
                self.tell("log_ended", task=name)
                os.close(worker.log_fd)
                del self.workers[name]

    def _nothing_runs(self) -> bool:
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return False

    def keep_time(self) -> None:
        """Do what is due: the lease, the SIGKILL after a grace, the end of patience with an unkillable process."""
        now = time.monotonic()
        if self.told_to_end:
            self.abandon("the agent was told to end by a signal")
        if now > self.lease_until:
            self.abandon(f"no sign of life from the launcher for {self.lease:g} s (timeouts.lease)")
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at = now + KILL_AGAIN
            self.give_up_at = self.give_up_at or now + UNKILLABLE
            left = signal_descendants(signal.SIGKILL)
            if now > self.give_up_at:
                self.tell("survivors", pids=left)
                self._emptied()

    def _timeout(self) -> float:
        due = [self.lease_until]
        if self.kill_at is not None:
            due.append(self.kill_at)
        if self.workers:
            due.append(time.monotonic() + self.poll_interval)
        return max(0.0, min(due) - time.monotonic())

    def _lost_guard(self) -> None:
        self.guard_gone = None
        self.abandon("the guard process beside the agent was killed")

    def run(self) -> None:
        """Serve until the launcher is gone and nothing is left."""
        while not self.over:
            poller = select.poll()
            if self.connected:
                poller.register(0, select.POLLIN)
            if self.outgoing:
                poller.register(1, select.POLLOUT)
            poller.register(self.wakeup, select.POLLIN)
            if self.guard_gone is not None:
                poller.register(self.guard_gone, select.POLLIN)
            for fd, _ in poller.poll(self._timeout() * 1000 + 0.5):
                if fd == 0:
                    self.receive()
                elif fd == self.wakeup:
                    os.read(self.wakeup, 4096)
                    self.children_changed()
                elif fd == self.guard_gone:
                    self._lost_guard()
            self.keep_time()
            self.ship()
            self.flush()


# ---------------------------------------------------------------- the two processes
def guard(agent: int) -> NoReturn:
    """Wait for the agent; leave nothing behind it.

    stdin and stdout are closed here, so that the launcher sees the agent's end as the end of the stream.
    """
    prctl(PR_SET_NAME, b"launch-guard")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: send_signal([agent], signal.SIGTERM))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.waitid(os.P_PID, agent, os.WEXITED | os.WNOWAIT)  # not reaped yet: its pid is still its own
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(agent, 0)
    left = kill_descendants()
    if left:
        os.write(2, f"processes that could not be killed: {left}\n".encode())
    os._exit(0 if status == 0 and not left else 1)


def main() -> None:
    """Split into guard and agent; greet; serve."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # what the parent blocked or ignored is inherited
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    guard_gone, guard_lives = os.pipe()
    agent = os.fork()
    if agent:
        os.close(guard_gone)
        guard(agent)
    os.close(guard_lives)
    os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_NAME, b"launch-agent")
    os.set_blocking(1, True)
    os.write(1, GREETING)
    Agent(guard_gone).run()


if __name__ == "__main__":
    main()
