"""The launcher's end of one agent: what it says becomes events, what the launcher wants becomes frames."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from launcher import events
from launcher.access import Access
from launcher.cluster import Task
from launcher.connection import Connection

if TYPE_CHECKING:
    from launcher.plan import TaskPlan  # not needed before the agents are started

Inbox = SimpleQueue[events.Event]

BEATS_PER_LEASE = 5


def receive(inbox: Inbox, timeout: float) -> events.Event | None:
    """The next event, or None after `timeout` seconds."""
    try:
        return inbox.get(timeout=max(0.0, timeout))
    except Empty:
        return None


class HostConnection(Connection):
    """One agent: what it is asked, and what its answers mean. Thread-safe; nothing here waits for the host."""

    def __init__(
        self,
        name: str,
        tasks: Iterable[Task],
        access: Access,
        inbox: Inbox,
        gate: threading.Semaphore,
        former: HostConnection | None = None,
    ) -> None:
        """Begin to connect; `inbox` gets what the agent tells. For the others see `Connection`."""
        self._tasks = {task.slug: task for task in tasks}
        super().__init__(name, access, inbox.put, gate, former)

    # ---- to the agent
    def hello(self, lease: float, variables: Sequence[str]) -> None:
        """Open the conversation; the answer is `HostReady`, with the values of these environment variables."""
        self._send({"do": "hello", "lease": lease, "variables": list(variables)})

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

    # ---- from the agent
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
