"""The launcher's end of one agent: what it says becomes events, what the launcher wants becomes frames."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from launcher.cluster.plan import TaskPlan
from launcher.cluster.spec import Task
from launcher.hosts import connection
from launcher.hosts.access import Access
from launcher.hosts.agent_messages import AgentMessages, Message
from launcher.hosts.connection import Connection

Inbox = connection.Inbox
receive = connection.receive
BEATS_PER_LEASE = 5


class HostConnection(Connection):
    """One agent: what it is asked, and what its answers mean. Thread-safe; nothing here waits for the host."""

    more_messages: Mapping[str, Message] = {}
    """What its agent tells besides."""

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
        self._messages = AgentMessages(name, tasks, self.more_messages)
        super().__init__(name, access, self._messages, inbox, gate, former)

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

    def dial(self, targets: Sequence[Mapping[str, Any]], seconds: float, look_up: float) -> None:
        """Try to reach ports (`id`, `address`, `port`, `word` each), names after `look_up` seconds at most.

        Answer: `Dialled`.
        """
        self._messages.dialled = frozenset(target["id"] for target in targets)
        self._send({"do": "dial", "targets": list(targets), "seconds": seconds, "look_up": look_up})

    def start(self, plans: Iterable[TaskPlan], hold: bool, admitted: str) -> None:
        """Start workers; each answers `TaskStarted` or `TaskStartFailed`, later `TaskExited`.

        `admitted`: who may connect to their ports, as `AttemptPlan` has it. It counts from the first start on.
        """
        jobs: list[dict[str, Any]] = [
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
        for job in jobs:
            self._messages.start(job["task"], job["log"])
        self._send({"do": "start", "jobs": jobs, "hold": hold, "admitted": admitted})

    def await_evaluator(self, task: Task, directory: str) -> None:
        """Ask for `EvaluatorDone` once the evaluator has seen the last checkpoint below its output directory."""
        self._send({"do": "await_evaluator", "task": task.slug, "directory": directory})

    def stop(self, signal: int, grace: float) -> None:
        """Signal everything the run started on the host (0: nothing); SIGKILL follows after `grace` seconds."""
        self._send({"do": "stop", "number": signal, "grace": grace})

    def acknowledge(self, task: Task, count: int) -> None:
        """Tell that `count` more bytes of a task's log are dealt with, so that as many more may come."""
        self._messages.acknowledge(task.slug, count)
        self._send({"do": "acknowledge", "task": task.slug, "count": count})

    def ask_about_project(self, step: str, body: bytes = b"", **fields: Any) -> None:
        """Do a step of sending the project (`launcher.on_host.agent.receiving`). Answers: `ProjectAnswer`."""
        if step == "compare":
            self._messages.list_project(len(body))
        self._send({"do": "project", "step": step, **fields}, body)

    def ask_about_files(self, step: str, **fields: Any) -> None:
        """Do a step of bringing files here (`launcher.on_host.agent.files`). Answers: `FileNews`."""
        self._send({"do": "files", "step": step, **fields})

    def deliver(self, step: str, body: bytes = b"", **fields: Any) -> None:
        """Do a step of bringing files to the host (`launcher.on_host.agent.deliveries`). Answers: `FileNews`."""
        self._send({"do": "delivery", "step": step, **fields}, body)
