"""The agent itself: one loop over stdin, stdout, signals and clocks."""

from __future__ import annotations

import os
import select
import signal
import time

from launcher.on_host.agent.facts import facts, own_addresses
from launcher.on_host.agent.fields import checked, encode
from launcher.on_host.agent.framing import MOST_FROM_LAUNCHER, MOST_LISTED, Decoder, UnreadableError
from launcher.on_host.agent.limits import in_words
from launcher.on_host.agent.messages import (
    COMMANDS,
    Acknowledge,
    Alive,
    AskProgram,
    AwaitEvaluator,
    Beat,
    BeginDelivery,
    BringProjectPiece,
    CompareProject,
    DeliverPiece,
    DialPorts,
    DialResults,
    DropDelivery,
    Empty,
    EvaluatorFinished,
    Exited,
    FilesArrived,
    ForgetFiles,
    Hello,
    Listening,
    ListFiles,
    Log,
    LogShipped,
    NoGate,
    NotPut,
    NotReserved,
    PlaceDelivery,
    PrepareProject,
    ProgramNotRun,
    Progress,
    Put,
    Ready,
    Reserve,
    Reserved,
    SendFile,
    SettleProject,
    Start,
    Started,
    StartFailed,
    Stop,
    StopAsked,
    Stranger,
    Survivors,
    TellProgram,
)
from launcher.on_host.agent.own_directory import UnsafeError, own_directory, refuse_widened
from launcher.on_host.agent.ports import close_sockets, hold_ports, listened_at
from launcher.on_host.agent.processes import (
    KILL_AGAIN,
    UNKILLABLE,
    has_children,
    out_of_memory_kills,
    reap,
    send_signal,
    signal_descendants,
)
from launcher.on_host.agent.reach import Answering, Dialling
from launcher.on_host.agent.support import remove_older, write_files
from launcher.on_host.agent.watching import Watch
from launcher.on_host.agent.workers import StartError, Worker, start_worker

if False:  # names for type checkers only: typing costs start-up time
    import socket
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from launcher.on_host.agent.deliveries import Deliveries
    from launcher.on_host.agent.evaluator import EvaluatorWatch
    from launcher.on_host.agent.files import Files
    from launcher.on_host.agent.gate import Gate, Strangers
    from launcher.on_host.agent.messages import Command, Event
    from launcher.on_host.agent.programs import AskedProgram
    from launcher.on_host.agent.receiving import Receiving

BACKLOG = 1 << 20
"""Bytes waiting in the agent to be written to the launcher, above which no more log is read."""

SHORT_BACKLOG = 1 << 19
"""The same for files: logs and news pass them by. So much keeps a pipe full while the next piece is read and hashed."""
FILE_TIME = 0.01
"""Seconds given to files before everything else gets its turn."""
BUSY_POLL, IDLE_POLL = 0.01, 0.1
"""Seconds between looks at the logs: just after something came, and at rest."""
LISTENER_LOOK = 0.25
"""Seconds between two looks whether a worker's server is up. Nothing waits for the answer, so none is in a hurry."""
STOP_REQUEST = signal.SIGUSR1
"""Asks for an orderly end of the run, on all hosts; `launch leftovers --stop` sends it."""
ORPHAN_GRACE = 0.3
"""Seconds between SIGTERM and SIGKILL when the launcher is gone: nobody will collect what a worker could still save."""


class Agent:
    """One loop over stdin, stdout, signals and clocks; it owns every worker of this host."""

    known: Mapping[str, type[Command]] = COMMANDS

    def __init__(self, guard_gone: int) -> None:
        self.guard_gone: int | None = guard_gone
        self.workers: dict[str, Worker] = {}
        self.told_logs: dict[tuple[int, int], int] = {}
        """Logs to which nobody writes any more, and how much of each was told."""
        self.watch = Watch(self.tell, time.monotonic())
        self.held: dict[str, socket.socket] = {}
        self.answering: Answering | None = None
        self.gate: Gate | None = None
        self.gate_trouble: str | None = None
        """Why there can be none here; None: that was not tried yet."""
        self.gate_decided = False
        """Once a worker may listen it is too late for a gate, which must be the first."""
        self.strangers: Strangers | None = None
        self.dialling: Dialling | None = None
        self.run_directory: int | None = None
        self.receiving: Receiving | None = None
        self.look_for_listeners_at = 0.0
        self.files: Files | None = None
        self.evaluator: EvaluatorWatch | None = None
        self.deliveries: Deliveries | None = None
        self.programs: dict[str, AskedProgram] = {}
        self.outgoing: list[memoryview] = []
        self.outgoing_bytes = 0
        self.connected = True
        self.lease = 15.0
        self.lease_until = time.monotonic() + self.lease
        self.poll_interval = BUSY_POLL
        self.kill_at: float | None = None
        """When SIGKILL follows; None: nothing is being stopped."""
        self.give_up_at: float | None = None
        self.over = False
        self.decoder = Decoder(MOST_FROM_LAUNCHER, MOST_FROM_LAUNCHER)
        self.wakeup, wakeup_write = os.pipe()
        for fd in (self.wakeup, wakeup_write, 0, 1):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wakeup_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.told_to_end = False
        self.asked_to_stop = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(STOP_REQUEST, self._on_stop_request)
        self.doers: dict[type[Command], Callable[[Any], None]] = {
            Hello: self.hello,
            Beat: self.beat,
            Put: self.put,
            Reserve: self.reserve,
            DialPorts: self.dial,
            Start: self.start,
            Stop: self.stop,
            Acknowledge: self.acknowledge,
            AwaitEvaluator: self.await_evaluator,
            AskProgram: self.ask_program,
            TellProgram: self.tell_program,
            **dict.fromkeys((CompareProject, PrepareProject, BringProjectPiece, SettleProject), self.receive_project),
            **dict.fromkeys((ListFiles, SendFile, FilesArrived, ForgetFiles), self.send_asked_files),
            **dict.fromkeys((BeginDelivery, DeliverPiece, PlaceDelivery, DropDelivery), self.deliver),
        }
        """Who does what the launcher says."""

    def _on_signal(self, *_: object) -> None:
        self.told_to_end = True

    def _on_stop_request(self, *_: object) -> None:
        self.asked_to_stop = True

    # ---- what goes to the launcher
    def tell(self, event: Event) -> None:
        """Queue an event for the launcher; it is written as the pipe takes it."""
        if self.connected:
            data = encode(event)
            self.outgoing.append(memoryview(data))  # what is left of it after a write is no copy
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
        try:
            for head, body in self.decoder.feed(data):
                command = checked(self.known, head, body)
                self.doers[type(command)](command)
        except UnreadableError as error:
            self.abandon(f"the launcher sent something unreadable: {error}")

    def hello(self, asked: Hello) -> None:
        self.lease = asked.lease
        self.lease_until = time.monotonic() + asked.lease
        self.tell(Ready(**facts(asked.variables)))

    def beat(self, _: Beat) -> None:
        """Reading it has renewed the lease."""
        self.tell(Alive())

    def put(self, asked: Put) -> None:
        """Make the run's directory, and write files there that workers will need.

        It is kept open: that tells whoever cleans up that the run is under way.
        """
        try:
            self.run_directory = own_directory(asked.root, "run_dir", private=True)
            write_files(self.run_directory, asked.files, asked.data)
            remove_older(self.run_directory, asked.files)
        except OSError as error:
            told = "" if isinstance(error, UnsafeError) else "; make room there, or name another `run_dir` for it"
            self.tell(NotPut(f"{error.filename or asked.root}: {error.strerror}{told}"))

    def reserve(self, asked: Reserve) -> None:
        """The ports of an earlier attempt are held still, and serve again."""
        self.open_gate()
        try:
            self.held = self.held or hold_ports(asked.names, asked.first, asked.last)
            ports = {name: each.getsockname()[1] for name, each in self.held.items()}
            if asked.word:
                self.answering = Answering(list(ports.values()), asked.word)
        except OSError as error:
            self.tell(NotReserved(in_words(error)))
            return
        self.tell(Reserved(ports))
        self.flush()
        self.try_gate()  # while the launcher makes its plan

    def dial(self, asked: DialPorts) -> None:
        self.dialling = Dialling(asked)
        self.tell_dialled()

    def tell_dialled(self) -> None:
        """Report once every target has been reached or not."""
        if self.dialling is not None and self.dialling.done:
            self.tell(DialResults(self.dialling.results))
            self.dialling = None

    def receive_project(self, asked: Command) -> None:
        """The first step brings the list of its files."""
        if isinstance(asked, CompareProject):
            from launcher.on_host.agent.receiving import Receiving  # few runs need it, and all would wait for it

            self.receiving = Receiving(self.tell, asked)
        elif self.receiving is not None:
            self.receiving.obey(asked)

    def start(self, asked: Start) -> None:
        """Start these workers; the first that cannot be started ends the row.

        The hosts of the run are known by the addresses that the proof of reach has seen, and this host's own.
        """
        self.poll_interval = BUSY_POLL
        self.watch = Watch(self.tell, time.monotonic())
        seen: set[str] = set()
        if self.answering is not None:
            self.answering.close()
            seen, self.answering = self.answering.seen, None
        if not asked.hold:
            close_sockets(self.held)
            self.held = {}
        elif asked.admitted != "all" and not self.gate_decided:
            self.close_gate({*seen, *own_addresses()} if asked.admitted == "hosts" else ())
        self.gate_decided = True
        for wanted in asked.workers:
            try:
                if self.run_directory is not None:
                    refuse_widened(self.run_directory, "run_dir")
                worker = start_worker(wanted)
            except (StartError, OSError) as error:
                reason = str(error) if isinstance(error, (StartError, UnsafeError)) else in_words(error)
                self.tell(StartFailed(wanted.task, reason))
                return
            former = self.workers.get(worker.name)
            if former is not None:
                worker.go_on_after(former)
            elif worker.log.file in self.told_logs:
                worker.log.go_on_at(self.told_logs[worker.log.file])
            self.workers[worker.name] = worker
            self.tell(Started(worker.name, worker.pid))
            self.flush()

    def close_gate(self, admitted: Iterable[str]) -> None:
        """Keep all others off the workers' ports, or tell why that cannot be done here."""
        from launcher.on_host.agent.gate import Gate, Strangers  # this takes longer than the rest of the start

        self.strangers = self.strangers or Strangers()
        ports = {name: each.getsockname()[1] for name, each in self.held.items()}
        trouble = self.gate_trouble
        if not trouble:
            try:
                self.gate = Gate(ports, admitted, self.strangers)
            except OSError as error:
                trouble = error.strerror or str(error)
        if trouble:
            self.tell(NoGate(trouble))

    def try_gate(self) -> None:
        """Find out once whether this kernel can have one."""
        from launcher.on_host.agent.gate import prove_that_kernel_obeys

        if self.gate_trouble is None:
            try:
                prove_that_kernel_obeys()
                self.gate_trouble = ""
            except OSError as error:
                self.gate_trouble = error.strerror or str(error)

    def open_gate(self) -> None:
        """No worker is left to be kept from anybody."""
        if self.gate is not None:
            self.gate.close()
            self.gate = None
        self.gate_decided = False

    def await_evaluator(self, asked: AwaitEvaluator) -> None:
        from launcher.on_host.agent.evaluator import EvaluatorWatch  # few runs have one

        if asked.task in self.workers:
            self.evaluator = EvaluatorWatch(asked.task, self.workers[asked.task].pid, asked.directory)

    def look_at_evaluator(self) -> None:
        """Tell once that it is done."""
        if self.evaluator is not None and self.evaluator.is_done(time.monotonic()):
            self.tell(EvaluatorFinished(self.evaluator.name))
            self.evaluator = None

    def stop(self, asked: Stop) -> None:
        self.evaluator = None
        if asked.number:
            send_signal(signal_descendants(asked.number), signal.SIGCONT)  # a stopped process takes no other signal
            self.watch.begin_stop()
        kill_at = time.monotonic() + asked.grace
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)
        self.children_changed()

    def acknowledge(self, asked: Acknowledge) -> None:
        if asked.task in self.workers:
            self.workers[asked.task].log.acknowledge(asked.count)
            self.poll_interval = BUSY_POLL

    def send_asked_files(self, asked: Command) -> None:
        if self.files is None:
            from launcher.on_host.agent.files import Files

            self.files = Files(self.tell)
        self.files.obey(asked)

    def deliver(self, asked: Command) -> None:
        if self.deliveries is None:
            from launcher.on_host.agent.deliveries import Deliveries

            self.deliveries = Deliveries(self.tell)
        self.deliveries.obey(asked)

    def ask_program(self, asked: AskProgram) -> None:
        from launcher.on_host.agent.programs import AskedProgram  # no run needs it

        try:
            self.programs[asked.name] = AskedProgram(asked, self.tell)
        except StartError as error:
            self.tell(ProgramNotRun(asked.name, str(error)))

    def tell_program(self, asked: TellProgram) -> None:
        if asked.name in self.programs:
            self.programs[asked.name].say(asked.said, asked.last)

    def abandon(self, reason: str) -> None:
        """Nobody will say what to do any more: stop everything, and end. The reason stands on stderr."""
        if self.connected:
            os.write(2, f"{reason}; all workers were stopped\n".encode())
            self.connected = False
            self.outgoing = []
            if self.receiving is not None:
                self.receiving.close()
            if self.files is not None:
                self.files.forget()
            if self.deliveries is not None:
                self.deliveries.close()
            self.stop(Stop(signal.SIGTERM, ORPHAN_GRACE))

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
        for name, program in self.programs.items():
            if program.pid == pid:
                program.ended(status)
                del self.programs[name]
                return
        for worker in self.workers.values():
            if worker.pid == pid and not worker.exited:
                worker.exited = True
                number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                killed_for_memory = number == signal.SIGKILL and out_of_memory_kills() > worker.kills_before
                code = None if number else os.WEXITSTATUS(status)
                full = worker.log.disk_is_full()
                self.tell(Exited(worker.name, code, number, killed_for_memory, full, worker.log.tail()))
                self.poll_interval = BUSY_POLL

    def _emptied(self) -> None:
        self.kill_at = self.give_up_at = None
        self.tell(Empty())
        self.poll_interval = BUSY_POLL
        self.over = self.over or not self.connected

    def ship(self) -> None:
        """Send what the workers wrote since the last look."""
        self.poll_interval = min(self.poll_interval * 1.5, IDLE_POLL)
        for worker in list(self.workers.values()):
            record = worker.reports.newest()
            if record:
                self.tell(Progress(worker.name, record))
            while self.outgoing_bytes < BACKLOG:
                offset, data = worker.log.next_chunk()
                if not data:
                    break
                self.tell(Log(worker.name, offset, data))
                self.poll_interval = BUSY_POLL
        if self.kill_at is None:
            self._close_drained_logs()

    def notice_listeners(self) -> None:
        """Tell of each worker whose TensorFlow server is up: from then on it waits for the others."""
        now = time.monotonic()
        silent = {worker.port: worker for worker in self.workers.values() if not worker.listens}
        if not silent or now < self.look_for_listeners_at:
            return
        self.look_for_listeners_at = now + LISTENER_LOOK
        for port in listened_at(list(silent), self.gate.inodes if self.gate else frozenset()):
            silent[port].listens = True
            if silent[port].runs_tensorflow():
                self.tell(Listening(silent[port].name))

    def send_files(self) -> None:
        """Send files as long as little else waits to be sent, and not for long."""
        until = time.monotonic() + FILE_TIME
        while self.files is not None and self._may_send_files() and time.monotonic() < until:
            self.files.step()
            self.flush()

    def _may_send_files(self) -> bool:
        return self.files is not None and self.files.ready and self.outgoing_bytes < SHORT_BACKLOG

    def _close_drained_logs(self) -> None:
        """Once nothing can write any more, a log that has been shipped whole is done with."""
        for name, worker in list(self.workers.items()):
            if worker.exited and not has_children() and worker.log.drained:
                self.tell(LogShipped(name))
                self.told_logs[worker.log.file] = worker.log.told
                worker.log.close()
                del self.workers[name]

    def keep_time(self) -> None:
        """Do what is due: the lease, the SIGKILL after a grace, the end of patience with an unkillable process."""
        now = time.monotonic()
        if self.told_to_end:
            self.abandon("the agent was told to end by a signal")
        if self.asked_to_stop:
            self.asked_to_stop = False
            self.tell(StopAsked())
        if now > self.lease_until:
            self.abandon(f"no sign of life from the launcher for {self.lease:g} s (timeouts.lease)")
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at = now + KILL_AGAIN
            self.give_up_at = self.give_up_at or now + UNKILLABLE
            left = signal_descendants(signal.SIGKILL)
            if now > self.give_up_at:
                self.tell(Survivors(left[:MOST_LISTED]))
                self._emptied()
        if self.dialling is not None and now >= self.dialling.until:
            self.dialling.give_up()
            self.tell_dialled()

    def _timeout(self) -> float:
        if self._may_send_files():
            return 0.0
        due = [self.lease_until]
        if self.kill_at is not None:
            due.append(self.kill_at)
        if self.workers:
            due.append(time.monotonic() + self.poll_interval)
        if self.dialling is not None:
            due.append(self.dialling.until)
        if self.receiving is not None and self.receiving.busy:
            due.append(self.receiving.due)
        return max(0.0, min(due) - time.monotonic())

    def _lost_guard(self) -> None:
        self.guard_gone = None
        self.abandon("the guard process beside the agent was killed")

    def _poller(self) -> select.poll:
        poller = select.poll()
        if self.connected:
            poller.register(0, select.POLLIN)
        if self.outgoing:
            poller.register(1, select.POLLOUT)
        poller.register(self.wakeup, select.POLLIN)
        if self.guard_gone is not None:
            poller.register(self.guard_gone, select.POLLIN)
        for fd in (*(self.answering.fds if self.answering else ()), *(self.gate.listeners if self.gate else ())):
            poller.register(fd, select.POLLIN)
        for fd, wanted in (self.dialling.events if self.dialling else {}).items():
            poller.register(fd, wanted)
        for program in self.programs.values():
            for fd, wanted in program.events.items():
                poller.register(fd, wanted)
        return poller

    def _serve(self, fd: int) -> None:
        if fd == 0:
            self.receive()
        elif fd == self.wakeup:
            os.read(self.wakeup, 4096)
            self.children_changed()
        elif fd == self.guard_gone:
            self._lost_guard()
        elif self.dialling is not None and fd in self.dialling.events:
            self.dialling.proceed(fd)
            self.tell_dialled()
        elif self.answering is not None and fd in self.answering.fds:
            self.answering.proceed(fd)
        elif self.gate is not None and fd in self.gate.listeners:
            for task, address, number in self.gate.turn_away(fd):
                self.tell(Stranger(task, address, number))
        else:
            for program in self.programs.values():
                if fd in program.events:
                    program.proceed(fd)

    def run(self) -> None:
        """Serve until the launcher is gone and nothing is left."""
        while not self.over:
            for fd, _ in self._poller().poll(self._timeout() * 1000 + 0.5):
                self._serve(fd)
            if self.receiving is not None:
                self.receiving.proceed()
            self.keep_time()
            self.notice_listeners()
            self.watch.look(self.workers.values(), time.monotonic())
            self.look_at_evaluator()
            self.ship()
            self.flush()
            self.send_files()
