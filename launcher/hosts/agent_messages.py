"""Checks every message of one agent, once, and turns it into an event.

A message's class says what its fields may hold (`launcher.on_host.agent.messages`). Which messages are allowed at all
depends on what the agent was asked; that is checked here, in the thread that reads the connection. So whoever gets an
event may rely on it, even if the host is broken or hostile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.cluster.spec import Task
from launcher.hosts import events
from launcher.on_host.agent import messages
from launcher.on_host.agent.fields import LAST, PART, FieldKind, Many, Table, checked
from launcher.on_host.agent.framing import MOST_BODY, UnreadableError, decoded, shown
from launcher.wording import harmless_line

LONGEST_REASON = 1 << 13
"""Characters of a text for people; a path in it may have 4096."""
MOST_AHEAD = 1 << 26
"""Bytes of one log that may arrive before earlier ones are acknowledged. Our own agent keeps to 1 MiB."""


class AgentMessages:
    """What one agent may send, given what it was asked."""

    def __init__(
        self, host: str, tasks: Iterable[Task], known: Mapping[str, type[messages.Event]] = messages.EVENTS
    ) -> None:
        """`known`: all messages that its program may send."""
        self.host = host
        self.tasks = {task.slug: task for task in tasks}
        self._known = known
        self._logs: dict[str, str] = {}
        """The path of each task's log, once the task was started."""
        self._received: dict[str, int] = {}
        """Bytes of each log that have arrived, and..."""
        self._shown: dict[str, int] = {}
        """...that the console has acknowledged."""
        self._acknowledging = threading.Lock()
        self._dialled: frozenset[str] = frozenset()
        """The ids of the targets that it was asked to dial."""
        self._is_ready = False
        self._most_parts = 0
        self._parts: list[bytes] = []
        """The parts so far of a message that is too long for one frame."""

    def note(self, command: messages.Command) -> None:
        """Remember what the agent is asked: it decides which answers are allowed."""
        match command:
            case messages.Start(workers):
                for worker in workers:
                    self._begin_log(worker.task, worker.log)
            case messages.Acknowledge(slug, count):
                with self._acknowledging:
                    self._shown[slug] = self._shown.get(slug, 0) + count
            case messages.DialPorts(targets):
                self._dialled = frozenset(target.id for target in targets)
            case messages.CompareProject(_, files):
                self._most_parts = sum(map(_size, files)) + MOST_BODY

    def _begin_log(self, slug: str, log: str) -> None:
        """The stream of a log starts at byte 0; the same log under a restarted worker continues."""
        if self._logs.get(slug) != log:
            self._logs[slug] = log
            self._received[slug] = self._shown[slug] = 0

    def event(self, head: dict[str, Any], body: bytes) -> events.Event | None:
        """The event that a frame means, if it means one.

        Raises:
            UnreadableError: the message is unknown or malformed, or is not allowed now.
        """
        if head == PART:
            self._keep_part(body)
            return None
        if head == LAST and not body:
            self._parts, parts = [], self._parts
            head = decoded(b"".join(parts))
        return self._meaning(harmless(checked(self._known, head, body)))

    def _keep_part(self, part: bytes) -> None:
        self._parts.append(part)
        if sum(map(len, self._parts)) > self._most_parts:
            raise UnreadableError("a message that is far too long")

    def _meaning(self, message: messages.Event) -> events.Event | None:  # noqa: C901 (a table)
        host, task = self.host, self._task
        match message:
            case messages.Alive():
                return None
            # the host
            case messages.Ready():
                self._greet()
                return events.HostReady(host, message)
            case messages.NotPut(reason):
                return events.PutFailed(host, reason)
            case messages.Reserved(ports):
                return self._reserved(ports)
            case messages.NotReserved(reason):
                return events.ReservationFailed(host, reason)
            case messages.DialResults(results):
                return self._results(results)
            case messages.NoGate(reason):
                return events.GateFailed(host, reason)
            case messages.StopAsked():
                return events.StopRequested(host)
            case messages.Empty():
                return events.HostEmpty(host)
            case messages.Survivors(pids):
                return events.ProcessesSurvived(host, tuple(pids))
            # its tasks
            case messages.Started(slug, pid):
                return events.TaskStarted(host, task(slug), pid)
            case messages.StartFailed(slug, reason):
                return events.TaskStartFailed(host, task(slug), reason)
            case messages.Listening(slug):
                return events.TaskListening(host, task(slug))
            case messages.WaitsElsewhere(slug, own, ports, connected, dialled):
                return events.TaskWaitsElsewhere(host, task(slug), own, tuple(ports), tuple(connected), tuple(dialled))
            case messages.SharedPort(port, processes):
                return self._shared_port(port, processes)
            case messages.Stranger(slug, address, number):
                return events.StrangerRefused(host, task(slug), address, number)
            case messages.Resting(slug, resting):
                return events.TaskResting(host, task(slug), resting)
            case messages.Exited():
                return self._exited(message)
            case messages.EvaluatorFinished(slug):
                return events.EvaluatorDone(host, task(slug))
            case messages.LogPiece(slug, offset, data):
                return self._log(slug, offset, data)
            case messages.LogShipped(slug):
                return events.LogEnded(host, task(slug))
            case messages.Progress(slug, line):
                return events.ProgressMade(host, task(slug), line)
        return events.Answer(host, message)  # for the part of the launcher that asked

    def _task(self, slug: str) -> Task:
        """The task of that name. It must have been started on this host."""
        if slug not in self._logs:
            raise UnreadableError(f"news of {shown(slug)}, which was not started there")
        return self.tasks[slug]

    def _greet(self) -> None:
        if self._is_ready:
            raise UnreadableError("`Ready` once more")
        self._is_ready = True

    def _log(self, slug: str, offset: int, data: bytes) -> events.LogChunk:
        """The next bytes of a log. Gaps, repetitions and more than was acknowledged are refused."""
        task, came = self._task(slug), self._received[slug]
        if offset != came:
            raise UnreadableError(f"the log of {slug} from byte {offset} on, where {came} have come so far")
        self._received[slug] = came + len(data)
        if self._received[slug] - self._shown[slug] > MOST_AHEAD:
            raise UnreadableError(f"the log of {slug} faster than it was asked for")
        return events.LogChunk(self.host, task, offset, data)

    def _reserved(self, ports: Mapping[str, int]) -> events.PortsReserved:
        """One port for each task of the host, no port twice."""
        if ports.keys() != self.tasks.keys() or len(set(ports.values())) != len(ports):
            raise UnreadableError(f"`Reserved` whose field 'ports' is {shown(ports)}")
        return events.PortsReserved(self.host, {self.tasks[slug]: port for slug, port in ports.items()})

    def _results(self, results: Mapping[str, str]) -> events.Dialled:
        """One result for each target that the host was asked to dial."""
        if results.keys() != self._dialled:
            raise UnreadableError(f"`DialResults` whose field 'results' is {shown(results)}")
        return events.Dialled(self.host, results)

    def _shared_port(self, port: int, processes: Iterable[tuple[str, int]]) -> events.PortShared:
        sharing = tuple((self._task(slug), pid) for slug, pid in processes)
        if len(sharing) < 2:
            raise UnreadableError("`SharedPort` by fewer than two processes")
        return events.PortShared(self.host, port, sharing)

    def _exited(self, message: messages.Exited) -> events.TaskExited:
        if (message.code is None) == (message.signal is None):
            raise UnreadableError("`Exited` with neither or both of exit code and signal")
        how = message.code, message.signal, message.out_of_memory, message.tail, message.log_disk_full
        return events.TaskExited(self.host, self._task(message.task), *how)


def _size(file: messages.ProjectFile) -> int:
    """The most bytes that an answer about a project file can take up: a character is six bytes on the wire."""
    return 4 * (6 * len(file.path) + 6 * len(file.target or "") + 64)


def harmless(message: messages.Event) -> messages.Event:
    """The message with its texts for people made into single lines without control characters."""
    return message.replaced({name: _harmless(kind, getattr(message, name)) for name, kind in message.words.items()})


def _harmless(kind: FieldKind, value: Any) -> Any:
    if isinstance(kind, Many):
        return [_harmless(kind.kind, each) for each in value]
    if isinstance(kind, Table):
        return {name: _harmless(kind.kind, each) for name, each in value.items()}
    return harmless_line(value[:LONGEST_REASON])
