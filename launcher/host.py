"""The launcher's end of one agent: what it says becomes events, what the launcher wants becomes frames."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from launcher import events
from launcher.access import Access
from launcher.agent.framing import GREETING, Decoder, encode
from launcher.agent_process import GOODBYE, AgentProcess
from launcher.cluster import Task
from launcher.ssh_complaint import Complaint

if TYPE_CHECKING:
    from launcher.plan import TaskPlan  # not needed before the agents are started

NO_SSH = "install OpenSSH's client (Debian, Ubuntu: apt install openssh-client)"
Inbox = SimpleQueue[events.Event]

BEATS_PER_LEASE = 5
PATIENCE = 2.0
"""Seconds without a first answer after which it is told that a host is waited for."""
TRIES = 6
"""How often a connection is tried that an overloaded sshd dropped; its default drops 3 of 10 and more at a time."""
PAUSE = 0.25
"""Seconds before the second try; it doubles with each, and is spread so that many do not come back at once."""


def receive(inbox: Inbox, timeout: float) -> events.Event | None:
    """The next event, or None after `timeout` seconds."""
    try:
        return inbox.get(timeout=max(0.0, timeout))
    except Empty:
        return None


class HostConnection:
    """One agent, from its start to its end. Thread-safe for sending.

    Frames may be sent at once: they are kept until the agent has greeted, and sent anew with every try to connect.
    """

    def __init__(
        self, name: str, tasks: Iterable[Task], access: Access, inbox: Inbox, gate: threading.Semaphore
    ) -> None:
        """Begin to connect. `gate`: how many hosts connect at a time."""
        self.name = name
        self._inbox = inbox
        self._tasks = {task.slug: task for task in tasks}
        self._access = access
        self._gate = gate
        self._lock = threading.RLock()
        self._process: AgentProcess | None = None
        self._early: list[bytes] | None = []
        """What was sent before the agent greeted; None: it has."""
        self._unsent = bytearray()
        """What of that is still here: ssh takes little before it is connected, and that is not waited for."""
        self._awaited_from = 0.0
        """Since when an answer is waited for; infinite: that has been told."""
        self._ended = threading.Event()
        """Nothing of this agent is told any more: it is closing, or was lost."""
        self._heard_at = time.monotonic()
        self._reader = threading.Thread(target=self._read, name=f"agent of {name}", daemon=True)
        self._reader.start()

    # ---- to the agent
    def hello(self, lease: float, variables: Sequence[str]) -> None:
        """Open the conversation; the answer is `HostReady`, with the values of these environment variables."""
        self._send({"do": "hello", "lease": lease, "variables": list(variables)})

    def beat(self) -> None:
        """Renew the lease; the agent answers."""
        self._send({"do": "beat"})

    def put(self, root: str, files: Mapping[str, bytes]) -> None:
        """Write small files below `root` on the host. Answer, only if that fails: `PutFailed`."""
        sizes = [[path, len(data)] for path, data in files.items()]
        self._send({"do": "put", "root": root, "files": sizes}, b"".join(files.values()))

    def reserve(self, tasks: Iterable[Task], first: int, last: int, word: str) -> None:
        """Ask for a port a task from `first` to `last` (both 0: any), which answers with `word` (if any) when dialled.

        Answer: `PortsReserved` or `ReservationFailed`.
        """
        names = [task.slug for task in tasks]
        self._send({"do": "reserve", "names": names, "first": first, "last": last, "word": word})

    def dial(self, targets: Sequence[Mapping[str, Any]], seconds: float) -> None:
        """Try to reach ports (`id`, `address`, `port`, `word` each). Answer: `Dialled`."""
        self._send({"do": "dial", "targets": list(targets), "seconds": seconds})

    def start(self, plans: Iterable[TaskPlan], hold: bool, admitted: str) -> None:
        """Start workers; each answers `TaskStarted` or `TaskStartFailed`, later `TaskExited`.

        `admitted`: who may connect to their ports, as `AttemptPlan` has it. It counts from the first start on.
        """
        jobs = [
            {
                "task": plan.task.slug,
                "argv": plan.argv,
                "env": dict(plan.env),
                "cwd": plan.workdir,
                "port": plan.port,
                "log": plan.log,
                "progress": plan.progress,
            }
            for plan in plans
        ]
        self._send({"do": "start", "jobs": jobs, "hold": hold, "admitted": admitted})

    def await_evaluator(self, task: Task, directory: str) -> None:
        """Ask for `EvaluatorDone` once the evaluator has seen the last checkpoint below its output directory."""
        self._send({"do": "await_evaluator", "task": task.slug, "directory": directory})

    def stop(self, signal: int, grace: float) -> None:
        """Signal everything the run started on the host (0: nothing); SIGKILL follows after `grace` seconds."""
        self._send({"do": "stop", "number": signal, "grace": grace})

    def acknowledge(self, task: Task, count: int) -> None:
        """Tell that `count` more bytes of a task's log are dealt with, so that as many more may come."""
        self._send({"do": "acknowledge", "task": task.slug, "count": count})

    def ask_about_project(self, step: str, body: bytes = b"", **fields: Any) -> None:
        """Do a step of sending the project (`launcher.agent.receiving`). Answers: `ProjectAnswer`."""
        self._send({"do": "project", "step": step, **fields}, body)

    def ask_about_files(self, step: str, **fields: Any) -> None:
        """Do a step of bringing files here (`launcher.agent.files`). Answers: `FileNews`."""
        self._send({"do": "files", "step": step, **fields})

    def deliver(self, step: str, body: bytes = b"", **fields: Any) -> None:
        """Do a step of bringing files to the host (`launcher.agent.deliveries`). Answers: `FileNews`."""
        self._send({"do": "delivery", "step": step, **fields}, body)

    def _send(self, head: dict[str, Any], body: bytes = b"") -> None:
        frame = encode(head, body)
        with self._lock:
            if self._early is not None:
                self._early.append(frame)
                self._unsent += frame
                self._send_early()
            elif self._process is not None:
                self._process.write(frame)

    def _send_early(self) -> None:
        if self._process is not None:
            del self._unsent[: self._process.offer(self._unsent)]

    @property
    def ssh_words(self) -> Sequence[str]:
        """How ssh is called to reach the host, but for its name; nothing for this machine."""
        return self._access.ssh

    # ---- from the agent
    @property
    def lost(self) -> bool:
        """Nothing more will come from this agent."""
        return self._ended.is_set()

    @property
    def silence(self) -> float:
        """Seconds since the agent was heard last; 0 before it has greeted: ssh has a limit of its own for that."""
        return time.monotonic() - self._heard_at if self._early is None and not self._ended.is_set() else 0.0

    def give_up(self, reason: str) -> None:
        """Whatever may still come is too late: `HostLost` at once, without waiting for anything to end."""
        self._lose(Complaint(reason))
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def tell(self, event: events.Event) -> None:
        """Put what was found out about the host among the events."""
        self._inbox.put(event)

    def _lose(self, complaint: Complaint) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._ended.set()
                self._inbox.put(events.HostLost(self.name, complaint.reason, complaint.remedy))

    def _read(self) -> None:
        complaint = Complaint("")
        for attempt in range(TRIES):
            try:
                rest = self._connect()
                if rest is not None:
                    self._listen(rest)
                complaint = self._complaint()
            except FileNotFoundError as error:
                complaint = Complaint(f"`{error.filename}` is not installed on this machine", NO_SSH)
            except (OSError, ValueError, KeyError) as error:
                complaint = Complaint(f"the agent sent something unreadable: {error!r}")
            if self._early is None or not complaint.passing or self._ended.is_set():
                break
            import random  # few connections are tried twice

            self._ended.wait(PAUSE * 2**attempt * random.uniform(0.5, 1.5))
        self._lose(complaint)

    def _connect(self) -> bytes | None:
        """Start an agent and let it read what was sent so far; what came behind its greeting, None if none came."""
        with self._gate:
            process = self._access.start()
            with self._lock:
                before, self._process = self._process, process
                if self._ended.is_set():
                    process.kill()
                self._unsent = bytearray().join(self._early or ())
                self._send_early()
            if before is not None:
                before.close()
            return self._greeting(process)

    def _greeting(self, process: AgentProcess) -> bytes | None:
        """Pass over what a login shell printed."""
        said = b""
        self._tell_if_late(process)
        while data := process.read():
            said += data
            _, greeting, rest = said.partition(GREETING)
            if greeting:
                self._heard_at = time.monotonic()
                with self._lock:
                    self._early = None
                    process.write(bytes(self._unsent))
                    self._unsent.clear()
                return rest
        return None

    def _tell_if_late(self, process: AgentProcess) -> None:
        self._awaited_from = self._awaited_from or time.monotonic()
        until = self._awaited_from + PATIENCE
        if self.ssh_words and until < math.inf and not process.speaks_within(until - time.monotonic()):
            self._awaited_from = math.inf
            self.tell(events.HostAwaited(self.name, self._access.destination()))

    def _listen(self, data: bytes) -> None:
        assert self._process is not None
        decoder = Decoder()
        while True:
            for head, body in decoder.feed(data):
                event = self._event(head, body)
                if event is not None:
                    self._inbox.put(event)
            data = self._process.read()
            if not data:
                return
            self._heard_at = time.monotonic()

    def _complaint(self) -> Complaint:
        assert self._process is not None
        return self._access.explained(*self._process.last_words())

    def _event(self, head: dict[str, Any], body: bytes) -> events.Event | None:
        kind = head.pop("event")
        if kind == "log":
            return events.LogChunk(self.name, self._tasks[head["task"]], head["offset"], body)
        if kind == "alive":
            return None
        if kind == "stranger":
            return events.StrangerRefused(self.name, self._tasks[head["task"]], head["address"], head["number"])
        if kind == "gate_failed":
            return events.GateFailed(self.name, head["reason"])
        if "task" in head:
            return self._task_event(kind, self._tasks[head["task"]], head, body)
        if kind.startswith("files_"):
            return events.FileNews(self.name, kind.removeprefix("files_"), head, body)
        if kind.startswith("project_"):
            return events.ProjectAnswer(self.name, kind.removeprefix("project_"), head, body)
        return self._host_event(kind, head)

    def _host_event(self, kind: str, head: dict[str, Any]) -> events.Event:
        if kind == "ready":
            return events.HostReady(self.name, head)
        if kind == "reserved":
            return events.PortsReserved(self.name, {self._tasks[name]: port for name, port in head["ports"].items()})
        if kind == "reservation_failed":
            return events.ReservationFailed(self.name, head["reason"])
        if kind == "put_failed":
            return events.PutFailed(self.name, head["reason"])
        if kind == "dialled":
            return events.Dialled(self.name, head["results"])
        if kind == "port_shared":
            processes = tuple((self._tasks[name], pid) for name, pid in head["processes"])
            return events.PortShared(self.name, head["port"], processes)
        if kind == "stop_requested":
            return events.StopRequested(self.name)
        if kind == "empty":
            return events.HostEmpty(self.name)
        if kind == "survivors":
            return events.ProcessesSurvived(self.name, tuple(head["pids"]))
        raise ValueError(f"unknown event {kind!r}")

    def _task_event(self, kind: str, task: Task, head: dict[str, Any], body: bytes) -> events.Event:
        if kind == "started":
            return events.TaskStarted(self.name, task, head["pid"])
        if kind == "start_failed":
            return events.TaskStartFailed(self.name, task, head["reason"])
        if kind == "listening":
            return events.TaskListening(self.name, task)
        if kind == "waits_elsewhere":
            addresses = (tuple(head[each]) for each in ("ports", "connected", "dialled"))
            return events.TaskWaitsElsewhere(self.name, task, head["own"], *addresses)
        if kind == "resting":
            return events.TaskResting(self.name, task, head["resting"])
        if kind == "exited":
            return events.TaskExited(self.name, task, head["code"], head["signal"], head["out_of_memory"], body)
        if kind == "evaluator_done":
            return events.EvaluatorDone(self.name, task)
        if kind == "log_ended":
            return events.LogEnded(self.name, task)
        if kind == "progress":
            return events.ProgressMade(self.name, task, body)
        raise ValueError(f"unknown event {kind!r}")

    def begin_to_close(self) -> None:
        """Tell the agent to end; `close` waits for it. Hosts that end together take no longer than one."""
        with self._lock:
            self._ended.set()
            if self._process is not None:
                self._process.hang_up()
                if self._early is not None and self.ssh_words:
                    self._process.kill()  # in the middle of connecting, ssh would not notice

    def close(self) -> None:
        """End the agent: it stops whatever still runs, and is gone when this returns."""
        self.begin_to_close()
        if self._process is not None:
            self._process.end()
        self._reader.join(GOODBYE)  # a frozen agent still holds the other end
        if self._process is not None:
            self._process.close()
