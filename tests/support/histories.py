"""Histories of events that are replayed into the real loop, on a clock of their own."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import Empty

from launcher.cluster.cluster import RestartLimits, Timeouts
from launcher.cluster.plan import AttemptPlan, TaskPlan
from launcher.cluster.spec import ClusterSpec, Task
from launcher.hosts import events
from launcher.run.attempt.actions import AttemptResult, StopGang
from launcher.run.attempt.lone_workers import LoneWorkers
from launcher.run.attempt.supervisor import supervise

W0, W1, CHIEF, PS, EVALUATOR = (
    Task(*each) for each in (("worker", 0), ("worker", 1), ("chief", 0), ("ps", 0), ("evaluator", 0))
)
TIMEOUTS = Timeouts(start=10, stall=100, grace=30, failure_grace=2, lease=15)
COLLATERAL = b"""\
Traceback (most recent call last):
  File "/home/user/train.py", line 9, in <module>
    step()
tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: Socket closed
The error could be from a previous operation. Restart your program to reset. [Op:CollectiveReduceV2]
"""
OWN = b"""\
Traceback (most recent call last):
  File "/home/user/train.py", line 9, in <module>
    raise ValueError("bad label")
ValueError: bad label
"""


@dataclass
class Script:
    """An inbox whose events come at set times, and hosts that write down what they are told and when."""

    history: Sequence[tuple[float, events.Event]]
    now: float = 0.0
    told: list[tuple[float, StopGang]] = field(default_factory=list)
    again: list[tuple[float, Task]] = field(default_factory=list)
    awaited: list[tuple[float, Task]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    urged: list[str] = field(default_factory=list)
    """What of it a quiet console shows, too."""
    beats: int = 0
    silent: bool = False
    """After the last event nothing more is heard."""
    next: int = 0

    def get(self, timeout: float) -> events.Event:
        if self.next < len(self.history) and self.history[self.next][0] <= self.now + timeout:
            at, event = self.history[self.next]
            self.next += 1
            self.now = max(self.now, at)
            return event
        assert self.next < len(self.history) or self.silent, f"the history ends at {self.now}, the gang is not over"
        self.now += timeout
        raise Empty

    def start(self, plan: AttemptPlan) -> None:
        assert plan.tasks

    def start_again(self, plan: TaskPlan) -> None:
        self.again.append((round(self.now, 3), plan.task))

    def await_evaluator(self, plan: TaskPlan) -> None:
        self.awaited.append((round(self.now, 3), plan.task))

    def stop(self, signal: int, grace: float) -> None:
        self.told.append((round(self.now, 3), StopGang(signal, grace)))

    beat_interval = 3.0

    def beat(self) -> None:
        self.beats += 1

    def say(self, text: str, *, error: bool = False) -> None:
        self.said.append(text)
        self.urged += [text] if error else []


def plan_of(*tasks: Task) -> AttemptPlan:
    address = "127.0.0.1:2222"
    plans = [TaskPlan(task, "localhost", address, ("true",), "/", {}, "log", "progress") for task in tasks]
    return AttemptPlan(0, ClusterSpec(dict.fromkeys(tasks, address)), tuple(plans))


def replay(
    plan: AttemptPlan, *history: tuple[float, events.Event], max_restarts: int = 0, silent: bool = False
) -> tuple[AttemptResult, Script]:
    """`silent`: nothing more is heard of the hosts after the history."""
    script = Script(history, silent=silent)
    lone = LoneWorkers(plan.spec.tasks, RestartLimits(max_restarts, backoff=1), used=0)
    result = supervise(plan, TIMEOUTS, script, script, lambda event: None, script.say, lone, lambda: script.now)  # type: ignore[arg-type]
    assert script.next == len(history), f"over before {history[script.next]}"
    return result, script


def started(task: Task, at: float = 0.0) -> tuple[float, events.Event]:
    return at, events.TaskStarted("localhost", task, 100)


def exited(
    at: float, task: Task, code: int | None = 0, signal: int | None = None, tail: bytes = b""
) -> tuple[float, events.Event]:
    return at, events.TaskExited("localhost", task, code, signal, False, tail)


def emptied(at: float, *tasks: Task) -> list[tuple[float, events.Event]]:
    return [(at, events.HostEmpty("localhost")), *((at, events.LogEnded("localhost", task)) for task in tasks)]


def interrupted(at: float, number: int = signal.SIGINT) -> tuple[float, events.Event]:
    return at, events.Interrupted(number)


def reported(at: float, task: Task, step: int) -> tuple[float, events.Event]:
    return at, events.ProgressMade("localhost", task, b'{"step": %d, "epoch": 0}' % step)
