"""All that an agent tells: what each message holds, and the event that it becomes.

A message is checked once, here, by the thread that has read it. Whoever gets the event may rely on it: every field is
there and of its kind, nothing else is, and only tasks that were started are told of.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from launcher.cluster.spec import Task
from launcher.hosts import events
from launcher.on_host.agent.framing import MOST_BODY, MOST_LISTED, UnreadableError, decoded, shown
from launcher.wording import harmless_line

Check = Callable[[Any], bool]
Told = Mapping[str, Any]

FOR_PEOPLE = ("reason", "hostname", "address")
"""Fields that are only shown: in a message, none of them can begin a line of its own, or move what stands before."""
LONGEST_TEXT = 1 << 17
"""Characters; Linux lets no variable of the environment be longer."""
LONGEST_REASON = 1 << 13
"""Characters of such a field; a path in it may have 4096."""
LONGEST_PIECE = 1 << 20
"""Bytes of a log or a file that come at a time."""
MOST_AHEAD = 1 << 26
"""Bytes of one log that may come before the console has shown those before them. An agent of ours keeps to 1 MiB."""
LONGEST_LINE = 1 << 16
"""Bytes of a report of progress."""
LONGEST_TAIL = 1 << 16
"""Bytes of a log's end, or of a program's last words."""


# ---- what a field may be
def whole(least: float = -math.inf, most: float = math.inf) -> Check:
    """A whole number; `True` is none."""
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def real(value: Any) -> bool:
    """A number, and a finite one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def truth(value: Any) -> bool:
    """Yes or no."""
    return isinstance(value, bool)


def name(value: Any) -> bool:
    """Any string: some hosts have files with names that are none elsewhere."""
    return isinstance(value, str)


def text(value: Any) -> bool:
    """A string that can be written somewhere, not too long; bytes that are no UTF-8 are surrogates."""
    try:
        return (
            isinstance(value, str)
            and len(value) <= LONGEST_TEXT
            and value.encode("utf-8", "surrogateescape") is not None
        )
    except UnicodeEncodeError:
        return False


def nothing_or(check: Check) -> Check:
    """A value, or null."""
    return lambda value: value is None or check(value)


def many(check: Check, most: float = MOST_LISTED) -> Check:
    """A list of no more entries than that."""
    return lambda value: isinstance(value, list) and len(value) <= most and all(map(check, value))


def row(*checks: Check) -> Check:
    """A list with one value of each kind."""

    def check(value: Any) -> bool:
        if not isinstance(value, list) or len(value) != len(checks):
            return False
        return all(each(part) for each, part in zip(checks, value, strict=True))

    return check


def table(check: Check) -> Check:
    """A value for each of some names."""
    return lambda value: isinstance(value, dict) and all(map(text, value)) and all(map(check, value.values()))


def for_people(words: str) -> str:
    """What is shown of a host's words."""
    return harmless_line(words[:LONGEST_REASON])


COUNT = whole(0, 2**63 - 1)
PID = whole(1, 2**31 - 1)
PORT = whole(1, 65535)
SIGNAL = whole(1, 64)
EXIT_CODE = whole(0, 255)
TIME_NS = whole()
"""Who uses it looks whether a file may have it: one with an odd time costs no host."""


class Message(NamedTuple):
    """One kind of message."""

    event: Callable[[AgentMessages, Told, bytes], events.Event | None]
    """What it becomes; may raise `UnreadableError`."""
    fields: Mapping[str, Check]
    most: int = 0
    """Bytes behind it."""
    spare: Mapping[str, object] = {}
    """Fields that may be left out, and what they are then."""


class AgentMessages:
    """What one agent says in the course of a connection, and what it was asked for that this depends on."""

    def __init__(self, host: str, tasks: Iterable[Task], more: Mapping[str, Message] | None = None) -> None:
        """`more`: messages of an agent that is asked for more than runs need."""
        self.host = host
        self.tasks = {task.slug: task for task in tasks}
        self._messages = {**MESSAGES, **(more or {})}
        self._logs: dict[str, str] = {}
        """The path of each task's log, once it was started."""
        self._came: dict[str, int] = {}
        """How much of it has come, and..."""
        self._shown: dict[str, int] = {}
        """...has been acknowledged."""
        self._acknowledging = threading.Lock()
        self.dialled: frozenset[str] = frozenset()
        """The targets that it was asked to reach."""
        self._is_ready = False
        self._most_parts = 0
        self._parts: list[bytes] = []
        """What has come of an answer about the project that is too long for one message."""

    def event(self, head: dict[str, Any], body: bytes) -> events.Event | None:
        """What a frame tells, if anybody has to know of it.

        Raises:
            UnreadableError: it is none that was agreed upon.
        """
        kind = head.pop("event", None)
        message = self._messages.get(kind) if isinstance(kind, str) else None
        if message is None:
            raise UnreadableError(f"an event {shown(kind)}, which is unknown")
        told = {**message.spare, **head}
        if told.keys() != message.fields.keys():
            wrong = sorted(told.keys() ^ message.fields.keys())[0]
            raise UnreadableError(f"`{kind}` {'with an unknown' if wrong in told else 'without'} field {shown(wrong)}")
        for field, check in message.fields.items():
            if not check(told[field]):
                raise UnreadableError(f"`{kind}` whose field '{field}' is {shown(told[field])}")
        if len(body) > message.most:
            raise UnreadableError(f"`{kind}` with {len(body)} bytes behind it, where {message.most} are the most")
        return message.event(self, told | {key: for_people(told[key]) for key in FOR_PEOPLE if key in told}, body)

    # ---- what it was asked
    def start(self, slug: str, log: str) -> None:
        """It is about to start this task, whose log goes on if it is the same as before."""
        if self._logs.get(slug) != log:
            self._logs[slug] = log
            self._came[slug] = self._shown[slug] = 0

    def acknowledge(self, slug: str, count: int) -> None:
        """So many bytes more of a log have been shown."""
        with self._acknowledging:
            self._shown[slug] = self._shown.get(slug, 0) + count

    def list_project(self, size: int) -> None:
        """It got a list of files that is so many bytes long; no answer is much longer."""
        self._most_parts = 4 * size + MOST_BODY

    # ---- what more than one kind of message needs
    def task(self, slug: str) -> Task:
        """The task of that name, which was started here."""
        if slug not in self._logs:
            raise UnreadableError(f"news of {shown(slug)}, which was not started there")
        return self.tasks[slug]

    def greeted(self) -> None:
        """It tells of its host, once."""
        if self._is_ready:
            raise UnreadableError("`ready` once more")
        self._is_ready = True

    def log(self, slug: str, offset: int, data: bytes) -> events.LogChunk:
        """The next bytes of a log, not others."""
        task, came = self.task(slug), self._came[slug]
        if offset != came:
            raise UnreadableError(f"the log of {slug} from byte {offset} on, where {came} have come so far")
        self._came[slug] = came + len(data)
        if self._came[slug] - self._shown[slug] > MOST_AHEAD:
            raise UnreadableError(f"the log of {slug} faster than it was asked for")
        return events.LogChunk(self.host, task, offset, data)

    def reserved(self, ports: Mapping[str, int]) -> events.PortsReserved:
        """A port for each task, and each once."""
        if ports.keys() != self.tasks.keys() or len(set(ports.values())) != len(ports):
            raise UnreadableError(f"`reserved` whose field 'ports' is {shown(ports)}")
        return events.PortsReserved(self.host, {self.tasks[slug]: port for slug, port in ports.items()})

    def results(self, results: Mapping[str, str]) -> events.Dialled:
        """One for each target."""
        if results.keys() != self.dialled:
            raise UnreadableError(f"`dialled` whose field 'results' is {shown(results)}")
        return events.Dialled(self.host, {target: for_people(reason) for target, reason in results.items()})

    def project_part(self, data: bytes) -> None:
        """Keep it for the answer that it is part of."""
        self._parts.append(data)
        if sum(map(len, self._parts)) > self._most_parts:
            raise UnreadableError("an answer about the project that is far too long")

    def project_list(self, kind: str, told: Told, data: bytes, fields: Mapping[str, Check]) -> events.ProjectAnswer:
        """An answer with a long list behind it, which is JSON."""
        parts, self._parts = self._parts, []
        found = decoded(b"".join([*parts, data]))
        for field, check in fields.items():
            if found.keys() != fields.keys() or not check(found[field]):
                raise UnreadableError(f"`project_{kind}` with {shown(data)}")
        return events.ProjectAnswer(self.host, kind, {**told, **found})


# ---- the messages
def _ready(of: AgentMessages, told: Told, _: bytes) -> events.HostReady:
    of.greeted()
    return events.HostReady(of.host, told)


def _waits_elsewhere(of: AgentMessages, told: Told, _: bytes) -> events.TaskWaitsElsewhere:
    places = (tuple(map(harmless_line, told[each])) for each in ("connected", "dialled"))
    return events.TaskWaitsElsewhere(of.host, of.task(told["task"]), told["own"], tuple(told["ports"]), *places)


def _exited(of: AgentMessages, told: Told, body: bytes) -> events.TaskExited:
    if (told["code"] is None) == (told["signal"] is None):
        raise UnreadableError("`exited` with neither or both of exit code and signal")
    how = told["code"], told["signal"], told["out_of_memory"]
    return events.TaskExited(of.host, of.task(told["task"]), *how, body, told["log_disk_full"])


def _port_shared(of: AgentMessages, told: Told, _: bytes) -> events.PortShared:
    if len(told["processes"]) < 2:
        raise UnreadableError("`port_shared` by fewer than two processes")
    processes = tuple((of.task(slug), pid) for slug, pid in told["processes"])
    return events.PortShared(of.host, told["port"], processes)


def _of_task(event: Callable[[str, Task], events.Event]) -> Callable[[AgentMessages, Told, bytes], events.Event]:
    return lambda of, told, _: event(of.host, of.task(told["task"]))


def _with_reason(event: Callable[[str, str], events.Event]) -> Callable[[AgentMessages, Told, bytes], events.Event]:
    return lambda of, told, _: event(of.host, told["reason"])


def _file_news(kind: str) -> Callable[[AgentMessages, Told, bytes], events.Event]:
    return lambda of, told, body: events.FileNews(of.host, kind, told, body)


def _project_answer(kind: str) -> Callable[[AgentMessages, Told, bytes], events.Event]:
    return lambda of, told, _: events.ProjectAnswer(of.host, kind, told)


def _project_list(kind: str, **fields: Check) -> Callable[[AgentMessages, Told, bytes], events.Event]:
    return lambda of, told, body: of.project_list(kind, told, body, fields)


NUMBER = {"number": COUNT}
REASON = {"reason": text}
TASK = {"task": text}
MESSAGES: Mapping[str, Message] = {
    # the host
    "ready": Message(
        _ready,
        {
            **dict.fromkeys(("python", "hostname", "home", "machine", "ssh_connection"), text),
            **dict.fromkeys(("pid", "guard"), PID),
            "cpus": whole(1, 2**20),
            "addresses": many(text, 1 << 16),
            "environment": table(text),
            "time": real,
        },
    ),
    "alive": Message(lambda *_: None, {}),
    "put_failed": Message(_with_reason(events.PutFailed), REASON),
    "reserved": Message(lambda of, told, _: of.reserved(told["ports"]), {"ports": table(PORT)}),
    "reservation_failed": Message(_with_reason(events.ReservationFailed), REASON),
    "dialled": Message(lambda of, told, _: of.results(told["results"]), {"results": table(text)}),
    "gate_failed": Message(_with_reason(events.GateFailed), REASON),
    "stop_requested": Message(lambda of, *_: events.StopRequested(of.host), {}),
    "empty": Message(lambda of, *_: events.HostEmpty(of.host), {}),
    "survivors": Message(
        lambda of, told, _: events.ProcessesSurvived(of.host, tuple(told["pids"])), {"pids": many(PID)}
    ),
    # its tasks
    "started": Message(
        lambda of, told, _: events.TaskStarted(of.host, of.task(told["task"]), told["pid"]), {**TASK, "pid": PID}
    ),
    "start_failed": Message(
        lambda of, told, _: events.TaskStartFailed(of.host, of.task(told["task"]), told["reason"]), {**TASK, **REASON}
    ),
    "listening": Message(_of_task(events.TaskListening), TASK),
    "waits_elsewhere": Message(
        _waits_elsewhere,
        {**TASK, "own": PORT, "ports": many(PORT), "connected": many(text), "dialled": many(text)},
    ),
    "port_shared": Message(_port_shared, {"port": PORT, "processes": many(row(text, PID))}),
    "stranger": Message(
        lambda of, told, _: events.StrangerRefused(of.host, of.task(told["task"]), told["address"], told["number"]),
        {**TASK, "address": text, "number": COUNT},
    ),
    "resting": Message(
        lambda of, told, _: events.TaskResting(of.host, of.task(told["task"]), told["resting"]),
        {**TASK, "resting": truth},
    ),
    "exited": Message(
        _exited,
        {
            **TASK,
            "code": nothing_or(EXIT_CODE),
            "signal": nothing_or(SIGNAL),
            "out_of_memory": truth,
            "log_disk_full": truth,
        },
        most=LONGEST_TAIL,
    ),
    "evaluator_done": Message(_of_task(events.EvaluatorDone), TASK),
    "log": Message(
        lambda of, told, body: of.log(told["task"], told["offset"], body), {**TASK, "offset": COUNT}, most=LONGEST_PIECE
    ),
    "log_ended": Message(_of_task(events.LogEnded), TASK),
    "progress": Message(
        lambda of, told, body: events.ProgressMade(of.host, of.task(told["task"]), body), TASK, most=LONGEST_LINE
    ),
    # its files
    "files_listed": Message(
        _file_news("listed"),
        {
            **NUMBER,
            "files": many(row(name, whole(), TIME_NS), math.inf),
            "links": many(name, math.inf),
            "unreadable": many(row(name, name), math.inf),
        },
    ),
    "files_list_ended": Message(_file_news("list_ended"), {**NUMBER, "clock_ns": TIME_NS}),
    "files_piece": Message(_file_news("piece"), {**NUMBER, "offset": COUNT}, most=LONGEST_PIECE),
    "files_sent": Message(
        _file_news("sent"),
        {**NUMBER, "size": COUNT, "sha256": text, "mtime_ns": TIME_NS, "unchanged": truth},
    ),
    "files_failed": Message(
        _file_news("failed"), {**NUMBER, **REASON, "path": name, "code": text}, spare={"path": "", "code": ""}
    ),
    "files_ready": Message(_file_news("ready"), {**NUMBER, "free": COUNT}),
    "files_taken": Message(_file_news("taken"), NUMBER),
    "files_placed": Message(_file_news("placed"), NUMBER),
    # the project
    "project_waits": Message(_project_answer("waits"), {"path": text}),
    "project_part": Message(lambda of, _, body: of.project_part(body), {}, most=MOST_BODY),
    "project_compared": Message(
        _project_list(
            "compared",
            wanted=many(COUNT, math.inf),
            doubtful=many(row(COUNT, text, text), math.inf),
            in_the_way=many(row(text, text), math.inf),
        ),
        {"top": text, "over": truth, "free": COUNT, "freed": COUNT, "rsync": truth},
        most=MOST_BODY,
    ),
    "project_prepared": Message(
        _project_list("prepared", kept=many(text, math.inf)), {"deleted": COUNT}, most=MOST_BODY
    ),
    "project_taken": Message(_project_answer("taken"), {}),
    "project_settled": Message(_project_list("settled", missing=many(COUNT, math.inf)), {}, most=MOST_BODY),
    "project_failed": Message(_project_answer("failed"), {"path": text, "code": text, **REASON}),
}
"""By what an agent calls them (`launcher.on_host.agent.loop.Agent.tell`)."""
