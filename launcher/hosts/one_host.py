"""The launcher's end of one agent: what it says becomes events, what the launcher wants becomes commands."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from launcher.cluster.plan import TaskPlan
from launcher.cluster.spec import Task
from launcher.hosts import connection
from launcher.hosts.access import Access
from launcher.hosts.agent_messages import AgentMessages
from launcher.hosts.connection import Connection
from launcher.on_host.agent.messages import EVENTS, Command, Event, Start, WorkerStart

Inbox = connection.Inbox
receive = connection.receive
BEATS_PER_LEASE = 5


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
        known: Mapping[str, type[Event]] = EVENTS,
    ) -> None:
        """Begin to connect; `inbox` gets what the agent tells. `known`: what its program may tell. See `Connection`."""
        self._messages = AgentMessages(name, tasks, known)
        super().__init__(name, access, self._messages, inbox, gate, former)

    def send(self, command: Command) -> None:
        """Ask the agent for something; each command tells what the answers are."""
        self._messages.note(command)
        super().send(command)


def start(plans: Iterable[TaskPlan], hold: bool, admitted: str) -> Start:
    """The command that starts these workers; `admitted`: as `AttemptPlan` has it."""
    workers = [
        WorkerStart(plan.task.slug, list(plan.argv), dict(plan.env), plan.workdir, plan.port, plan.log, plan.progress)
        for plan in plans
    ]
    return Start(workers, hold, admitted)
