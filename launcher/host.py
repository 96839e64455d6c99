"""The launcher's end of one agent: what it says becomes events, what the launcher wants becomes frames."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from launcher import events
from launcher.agent.framing import GREETING, Decoder, encode
from launcher.agent_process import GOODBYE, AgentProcess
from launcher.cluster import Task

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


class HostConnection:
    """One agent, from its start to its end. Thread-safe for sending."""

    def __init__(self, name: str, tasks: Iterable[Task], process: AgentProcess, inbox: Inbox) -> None:
        self.name = name
        self._inbox = inbox
        self._tasks = {task.slug: task for task in tasks}
        self._process = process
        self._closing = False
        self._reader = threading.Thread(target=self._read, name=f"agent of {name}", daemon=True)
        self._reader.start()

    # ---- to the agent
    def hello(self, lease: float) -> None:
        """Open the conversation; the answer is `HostReady`."""
        self._send({"do": "hello", "lease": lease})

    def beat(self) -> None:
        """Renew the lease."""
        self._send({"do": "beat"})

    def reserve(self, tasks: Iterable[Task], first: int, last: int) -> None:
        """Ask for a port a task from `first` to `last` (both 0: any). Answer: `PortsReserved`, `ReservationFailed`."""
        self._send({"do": "reserve", "names": [task.slug for task in tasks], "first": first, "last": last})

    def start(self, plans: Iterable[TaskPlan]) -> None:
        """Start workers; each answers `TaskStarted` or `TaskStartFailed`, later `TaskExited`."""
        jobs = [
            {
                "task": plan.task.slug,
                "argv": plan.argv,
                "env": dict(plan.env),
                "cwd": plan.workdir,
                "log": plan.log,
                "progress": plan.progress,
            }
            for plan in plans
        ]
        self._send({"do": "start", "jobs": jobs})

    def stop(self, signal: int, grace: float) -> None:
        """Signal everything the run started on the host (0: nothing); SIGKILL follows after `grace` seconds."""
        self._send({"do": "stop", "number": signal, "grace": grace})

    def acknowledge(self, task: Task, count: int) -> None:
        """Tell that `count` more bytes of a task's log are dealt with, so that as many more may come."""
        self._send({"do": "acknowledge", "task": task.slug, "count": count})

    def _send(self, head: dict[str, Any]) -> None:
        self._process.write(encode(head))

    # ---- from the agent
    def _read(self) -> None:
        reason = ""
        try:
            for head, body in self._frames():
                self._inbox.put(self._event(head, body))
        except (OSError, ValueError, KeyError) as error:
            reason = f"the agent sent something unreadable: {error!r}"
        if not self._closing:
            self._inbox.put(events.HostLost(self.name, reason or self._process.last_words()))

    def _frames(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        decoder = Decoder()
        before = b""
        greeted = False
        while data := self._process.read():
            if not greeted:
                before += data
                _, greeting, data = before.partition(GREETING)
                greeted = bool(greeting)
                if not greeted:
                    continue
            yield from decoder.feed(data)

    def _event(self, head: dict[str, Any], body: bytes) -> events.Event:
        kind = head.pop("event")
        if kind == "log":
            return events.LogChunk(self.name, self._tasks[head["task"]], head["offset"], body)
        if kind == "ready":
            return events.HostReady(self.name, head)
        if kind == "reserved":
            return events.PortsReserved(self.name, {self._tasks[name]: port for name, port in head["ports"].items()})
        if kind == "reservation_failed":
            return events.ReservationFailed(self.name, head["reason"])
        if kind == "empty":
            return events.HostEmpty(self.name)
        if kind == "survivors":
            return events.ProcessesSurvived(self.name, tuple(head["pids"]))
        return self._task_event(kind, self._tasks[head["task"]], head, body)

    def _task_event(self, kind: str, task: Task, head: dict[str, Any], body: bytes) -> events.Event:
        if kind == "started":
            return events.TaskStarted(self.name, task, head["pid"])
        if kind == "start_failed":
            return events.TaskStartFailed(self.name, task, head["reason"])
        if kind == "exited":
            return events.TaskExited(self.name, task, head["code"], head["signal"], head["out_of_memory"], body)
        if kind == "log_ended":
            return events.LogEnded(self.name, task)
        if kind == "progress":
            return events.ProgressMade(self.name, task, body)
        raise ValueError(f"unknown event {kind!r}")

    def close(self) -> None:
        """End the agent: it stops whatever still runs, and is gone when this returns."""
        self._closing = True
        self._process.end()
        self._reader.join(GOODBYE)  # a frozen agent still holds the other end
        self._process.close()
