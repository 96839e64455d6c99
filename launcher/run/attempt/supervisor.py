"""One attempt, from the start of the gang to the moment when nothing of it is left.

`Gang` decides. The loop here alone reads the inbox, carries out what is decided, and keeps the agents' leases alive.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from launcher.cluster.cluster import Timeouts
from launcher.cluster.plan import AttemptPlan
from launcher.hosts.all_hosts import Hosts
from launcher.hosts.attending import Observer, attend
from launcher.hosts.inbox import Inbox
from launcher.run.attempt.actions import AttemptResult, StartAgain, StopGang, Tell, WatchEvaluator
from launcher.run.attempt.gang import Gang
from launcher.run.attempt.lone_workers import LoneWorkers


def supervise(
    plan: AttemptPlan,
    timeouts: Timeouts,
    hosts: Hosts,
    inbox: Inbox,
    observe: Observer,
    say: Callable[..., None],
    lone: LoneWorkers,
    clock: Callable[[], float] = time.monotonic,
) -> AttemptResult:
    """Start a planned attempt and stay with it until nothing of it is left. `observe` sees every event."""
    gang = Gang(plan, timeouts, lone, clock())
    hosts.start(plan)
    for event in attend(hosts, inbox, lambda: gang.over, lambda: gang.deadline or math.inf, clock):
        if event is not None:
            observe(event)
        for action in gang.step(event, clock()):
            match action:
                case StopGang(signal, grace):
                    hosts.stop(signal, grace)
                case StartAgain(task):
                    hosts.start_again(plan.of(task))
                case WatchEvaluator(task):
                    hosts.await_evaluator(plan.of(task))
                case Tell(text, error):
                    say(text, error=error)
    return gang.result
