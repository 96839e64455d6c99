"""The workers of this host: starts and watches them, ships their logs and progress, reports how they end."""

from __future__ import annotations

import math
import os
import signal
import time

from launcher.on_host.agent.jobs import Job
from launcher.on_host.agent.limits import in_words
from launcher.on_host.agent.messages import (
    Acknowledge,
    AwaitEvaluator,
    EvaluatorFinished,
    Exited,
    Listening,
    LogPiece,
    LogShipped,
    NotPut,
    Progress,
    Put,
    Start,
    Started,
    StartFailed,
)
from launcher.on_host.agent.own_directory import UnsafeError, own_directory, refuse_widened
from launcher.on_host.agent.ports import listened_at
from launcher.on_host.agent.processes import has_children, out_of_memory_kills
from launcher.on_host.agent.support import remove_older, write_files
from launcher.on_host.agent.watching import Watch
from launcher.on_host.agent.workers import StartError, Worker, start_worker

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Callable

    from launcher.on_host.agent.evaluator import EvaluatorWatch
    from launcher.on_host.agent.held_ports import HeldPorts
    from launcher.on_host.agent.jobs import Handlers
    from launcher.on_host.agent.link import Link
    from launcher.on_host.agent.messages import WorkerStart

BACKLOG = 1 << 20
"""Bytes waiting to be sent to the launcher, above which no more log is read."""
BUSY_POLL, IDLE_POLL = 0.01, 0.1
"""Seconds between two looks at the logs: just after one has grown, and while none does."""
LISTENER_LOOK = 0.25
"""Seconds before each look whether a worker's server is up: a look takes 10 ms, and nothing waits for the answer."""


class Workers(Job):
    """All workers of this host, by task."""

    def __init__(self, link: Link, ports: HeldPorts, is_stopping: Callable[[], bool]) -> None:
        self._link = link
        self._ports = ports
        self._is_stopping = is_stopping
        self._workers: dict[str, Worker] = {}
        self._shipped_logs: dict[tuple[int, int], int] = {}
        """Bytes that were shipped of each closed log: a worker that is started again continues its log there."""
        self._run_directory: int | None = None
        self._watch = Watch(link.tell, time.monotonic())
        self._evaluator: EvaluatorWatch | None = None
        self._look_for_listeners_at = 0.0
        self._poll_interval = BUSY_POLL

    def handlers(self) -> Handlers:
        return {
            Put: self._put,
            Start: self._start,
            Acknowledge: self._acknowledge,
            AwaitEvaluator: self._await_evaluator,
        }

    def look_soon(self) -> None:
        """Something has happened: poll the logs quickly again."""
        self._poll_interval = BUSY_POLL

    # ---- the start
    def _put(self, asked: Put) -> None:
        """Make the run's directory, and write the files there that workers will need.

        It stays open, which tells `launch leftovers` that the run is under way.
        """
        try:
            self._run_directory = own_directory(asked.root, "run_dir", private=True)
            write_files(self._run_directory, asked.files, asked.data)
            remove_older(self._run_directory, asked.files)
        except OSError as error:
            remedy = "" if isinstance(error, UnsafeError) else "; make room there, or name another `run_dir` for it"
            self._link.tell(NotPut(f"{error.filename or asked.root}: {error.strerror}{remedy}"))

    def _start(self, asked: Start) -> None:
        self.look_soon()
        self._watch = Watch(self._link.tell, time.monotonic())
        self._ports.give_to_workers(asked.hold, asked.admitted)
        for wanted in asked.workers:
            try:
                worker = self._started(wanted)
            except (StartError, OSError) as error:
                reason = str(error) if isinstance(error, (StartError, UnsafeError)) else in_words(error)
                self._link.tell(StartFailed(wanted.task, reason))
                return
            self._workers[worker.name] = worker
            self._link.tell(Started(worker.name, worker.pid))
            self._link.flush()
        self._look_for_listeners_at = time.monotonic() + LISTENER_LOOK

    def _started(self, wanted: WorkerStart) -> Worker:
        if self._run_directory is not None:
            refuse_widened(self._run_directory, "run_dir")
        worker = start_worker(wanted)
        former = self._workers.get(worker.name)
        if former is not None:
            worker.go_on_after(former)
        elif worker.log.file in self._shipped_logs:
            worker.log.go_on_at(self._shipped_logs[worker.log.file])
        return worker

    # ---- while they run
    @property
    def due(self) -> float:
        return time.monotonic() + self._poll_interval if self._workers else math.inf

    def step(self, now: float) -> None:
        self._notice_listeners(now)
        self._watch.look(self._workers.values(), now)
        if self._evaluator is not None and self._evaluator.is_done(now):
            self._link.tell(EvaluatorFinished(self._evaluator.name))
            self._evaluator = None
        self._ship()

    def _notice_listeners(self, now: float) -> None:
        """Report each worker whose TensorFlow server is up: from then on it waits for its peers."""
        pending = {worker.port: worker for worker in self._workers.values() if not worker.listens}
        if not pending or now < self._look_for_listeners_at:
            return
        self._look_for_listeners_at = now + LISTENER_LOOK
        for port in listened_at(list(pending), self._ports.own_inodes):
            pending[port].listens = True
            if pending[port].runs_tensorflow():
                self._link.tell(Listening(pending[port].name))

    def _ship(self) -> None:
        """Ship what the workers have written since the last look."""
        self._poll_interval = min(self._poll_interval * 1.5, IDLE_POLL)
        for worker in list(self._workers.values()):
            report = worker.reports.newest()
            if report:
                self._link.tell(Progress(worker.name, report))
            while self._link.backlog < BACKLOG:
                offset, data = worker.log.next_chunk()
                if not data:
                    break
                self._link.tell(LogPiece(worker.name, offset, data))
                self.look_soon()
        if not self._is_stopping():
            self._close_shipped_logs()

    def _close_shipped_logs(self) -> None:
        """Close each log that was shipped whole, once no process is left that could write to it."""
        for name, worker in list(self._workers.items()):
            if worker.exited and not has_children() and worker.log.drained:
                self._link.tell(LogShipped(name))
                self._shipped_logs[worker.log.file] = worker.log.shipped
                worker.log.close()
                del self._workers[name]

    def _acknowledge(self, asked: Acknowledge) -> None:
        if asked.task in self._workers:
            self._workers[asked.task].log.acknowledge(asked.count)
            self.look_soon()

    def _await_evaluator(self, asked: AwaitEvaluator) -> None:
        from launcher.on_host.agent.evaluator import EvaluatorWatch  # few runs have one

        if asked.task in self._workers:
            self._evaluator = EvaluatorWatch(asked.task, self._workers[asked.task].pid, asked.directory)

    # ---- the end
    def begin_stop(self, *, signalled: bool) -> None:
        """All workers are to end; `signalled`: they got a signal."""
        self._evaluator = None
        if signalled:
            self._watch.begin_stop()

    def child_ended(self, pid: int, status: int) -> None:
        for worker in self._workers.values():
            if worker.pid == pid and not worker.exited:
                worker.exited = True
                number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                code = None if number else os.WEXITSTATUS(status)
                killed_for_memory = number == signal.SIGKILL and out_of_memory_kills() > worker.kills_before
                full = worker.log.disk_is_full()
                self._link.tell(Exited(worker.name, code, number, killed_for_memory, full, worker.log.tail()))
                self.look_soon()
