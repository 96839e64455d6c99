"""Histories of events replayed into the real loop, on a clock of their own; what the hosts are told is compared."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import Empty

import pytest

from launcher import events
from launcher.cluster import ClusterSpec, Task
from launcher.cluster_file import RestartLimits, Timeouts
from launcher.failure import Ending, Kind, LastReport, classify, root_cause
from launcher.gang import SILENCE, AttemptResult, Stop
from launcher.lone_workers import LoneWorkers
from launcher.misplaced_servers import LAUNCHS_WINS
from launcher.plan import AttemptPlan, TaskPlan
from launcher.supervisor import supervise

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
    told: list[tuple[float, Stop]] = field(default_factory=list)
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
        self.told.append((round(self.now, 3), Stop(signal, grace)))

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


TWO = plan_of(W0, W1)
BOTH_STARTED = (started(W0), started(W1))


def test_it_succeeds_when_every_worker_exits_zero_and_then_clears_what_they_left() -> None:
    result, script = replay(TWO, *BOTH_STARTED, exited(5, W0), exited(6, W1), *emptied(6, W0, W1))
    assert result.succeeded
    assert script.told == [(6, Stop(signal.SIGTERM, 2))]
    assert script.said == []


def test_one_worker_that_is_done_does_not_stop_the_other() -> None:
    result, script = replay(TWO, *BOTH_STARTED, exited(1, W0), exited(50, W1), *emptied(50, W0, W1))
    assert result.succeeded
    assert script.told == [(50, Stop(signal.SIGTERM, 2))]


def test_a_killed_worker_stops_the_gang_after_a_short_settling() -> None:
    result, script = replay(
        TWO, *BOTH_STARTED, exited(5, W0, None, 9), exited(5.06, W1, None, 15), *emptied(5.06, W0, W1)
    )
    assert not result.succeeded
    assert script.told[0] == (5.05, Stop(signal.SIGTERM, 2))


def test_all_dead_is_stopped_at_once_without_settling() -> None:
    _, script = replay(TWO, *BOTH_STARTED, exited(5, W0, 3), exited(5.01, W1, 3), *emptied(5.02, W0, W1))
    assert script.told == [(5.01, Stop(signal.SIGTERM, 2))]


def test_a_mere_complaint_about_a_peer_leaves_the_peer_time_to_die_of_its_own_error() -> None:
    result, script = replay(
        TWO,
        *BOTH_STARTED,
        exited(5, W0, 1, tail=COLLATERAL),
        exited(6, W1, 1, tail=OWN),
        *emptied(6, W0, W1),
    )
    assert [ending.stopped for ending in result.endings] == [False, False]
    assert script.told == [(6, Stop(signal.SIGTERM, 2))]


def test_a_complaint_whose_peer_never_dies_stops_the_gang_in_the_end() -> None:
    _, script = replay(
        TWO, *BOTH_STARTED, exited(5, W0, 1, tail=COLLATERAL), exited(9, W1, None, 9), *emptied(9, W0, W1)
    )
    assert script.told[0] == (7, Stop(signal.SIGTERM, 2))


def test_a_peers_complaint_after_the_chiefs_success_is_no_failure() -> None:
    result, _ = replay(TWO, *BOTH_STARTED, exited(5, W0), exited(6, W1, 1, tail=COLLATERAL), *emptied(6, W0, W1))
    assert result.succeeded


def test_a_workers_own_failure_after_the_chiefs_success_is_a_failure() -> None:
    result, _ = replay(TWO, *BOTH_STARTED, exited(5, W0), exited(6, W1, 1, tail=OWN), *emptied(6, W0, W1))
    assert not result.succeeded


def test_the_first_interrupt_passes_the_signal_on_with_the_full_grace() -> None:
    result, script = replay(
        TWO,
        *BOTH_STARTED,
        interrupted(5),
        exited(6, W0, None, 2),
        exited(6.5, W1, None, 2),
        *emptied(6.5, W0, W1),
    )
    assert result.interrupted == signal.SIGINT
    assert not result.succeeded
    assert script.told[0] == (5, Stop(signal.SIGINT, 30))


def test_a_run_that_somebody_asks_a_host_to_end_is_stopped_and_no_success() -> None:
    asked = events.StopRequested("localhost")
    result, script = replay(
        TWO, *BOTH_STARTED, (5, asked), (5.1, asked), exited(6, W0), exited(6, W1), *emptied(6, W0, W1)
    )
    assert (result.interrupted, result.succeeded) == (signal.SIGTERM, False)
    assert script.told[0] == (5, Stop(signal.SIGTERM, 30))
    assert not [each for each in script.told if each[1].signal == signal.SIGKILL]
    assert script.said[0].startswith("localhost was asked to end the run: stopping 2 workers by SIGTERM")


def test_sigterm_and_sighup_reach_the_workers_as_sigterm() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        result, script = replay(
            TWO, *BOTH_STARTED, interrupted(5, number), exited(6, W0), exited(6, W1), *emptied(6, W0, W1)
        )
        assert result.interrupted == number
        assert script.told[0] == (5, Stop(signal.SIGTERM, 30))


def test_the_grace_becomes_short_once_a_peer_is_gone() -> None:
    _, script = replay(
        TWO, *BOTH_STARTED, interrupted(5), exited(6, W0, 1), exited(8, W1, None, 9), *emptied(8, W0, W1)
    )
    assert (6, Stop(0, 2)) in script.told


def resting(task: Task, at: float, rests: bool = True) -> tuple[float, events.Event]:
    return at, events.TaskResting("localhost", task, rests)


def test_workers_that_all_only_wait_after_an_interrupt_are_killed() -> None:
    _, script = replay(
        TWO,
        *BOTH_STARTED,
        interrupted(5),
        resting(W0, 7),
        resting(W1, 7.5),
        exited(7.6, W0, None, 9),
        exited(7.6, W1, None, 9),
        *emptied(7.6, W0, W1),
    )
    assert script.told[:2] == [(5, Stop(signal.SIGINT, 30)), (7.5, Stop(signal.SIGKILL, 0))]
    assert script.said[1:] == ["worker 0 and worker 1 only waited in TensorFlow for 2 s: ended"]


def test_a_worker_that_waits_is_left_alone_as_long_as_another_one_saves() -> None:
    """The save may need it: collectives and parameter servers."""
    _, script = replay(
        TWO,
        *BOTH_STARTED,
        interrupted(5),
        resting(W0, 7),
        resting(W1, 7.1, rests=False),
        exited(20, W1, 0),  # its end may wake worker 0
        exited(22.1, W0, None, 9),
        *emptied(22.1, W0, W1),
    )
    assert [each for each in script.told if each[1].signal] == [
        (5, Stop(signal.SIGINT, 30)),
        (22, Stop(signal.SIGKILL, 0)),
        (22.1, Stop(signal.SIGTERM, 2)),
    ]


def test_a_worker_that_works_again_is_not_waiting_any_more() -> None:
    _, script = replay(
        TWO,
        *BOTH_STARTED,
        interrupted(5),
        resting(W0, 7),
        resting(W0, 8, rests=False),
        resting(W1, 9),
        exited(20, W0, 0),
        exited(20.1, W1, None, 9),
        *emptied(20.1, W0, W1),
    )
    assert script.told[1][0] == 20


def test_what_outlives_all_workers_of_an_interrupted_gang_is_told_to_end() -> None:
    _, script = replay(TWO, *BOTH_STARTED, interrupted(5), exited(6, W0, 1), exited(6, W1, 1), *emptied(8, W0, W1))
    assert script.told[-1] == (6, Stop(signal.SIGTERM, 2))


def test_the_second_interrupt_kills_at_once() -> None:
    _, script = replay(
        TWO,
        *BOTH_STARTED,
        interrupted(5),
        interrupted(7),
        exited(7, W0, None, 9),
        exited(7, W1, None, 9),
        *emptied(7, W0, W1),
    )
    assert (7, Stop(signal.SIGKILL, 0)) in script.told


def test_an_interrupt_while_logs_are_still_coming_gives_up_waiting_for_them() -> None:
    result, _ = replay(
        TWO, *BOTH_STARTED, exited(5, W0), exited(5, W1), (5, events.HostEmpty("localhost")), interrupted(6)
    )
    assert result.interrupted == signal.SIGINT


def test_an_attempt_is_over_only_when_every_log_has_arrived() -> None:
    replay(
        TWO,
        *BOTH_STARTED,
        exited(5, W0),
        exited(5, W1),
        (5, events.HostEmpty("localhost")),
        (60, events.LogEnded("localhost", W0)),
        (70, events.LogEnded("localhost", W1)),
    )


def test_a_worker_that_cannot_be_started_stops_the_others_at_once() -> None:
    result, script = replay(
        TWO,
        started(W0),
        (1, events.TaskStartFailed("localhost", W1, "no such file")),
        exited(1.1, W0, None, 15),
        *emptied(1.1, W0),
    )
    assert not result.succeeded
    assert script.told[0] == (1, Stop(signal.SIGTERM, 2))
    assert script.said == ["stopping 1 worker by SIGTERM; SIGKILL follows after 2 s"], "its report says the rest"


def test_how_far_a_worker_had_come_is_known_when_it_ends() -> None:
    result, _ = replay(
        TWO,
        *BOTH_STARTED,
        (20, events.ProgressMade("localhost", W0, b'{"step": 811}')),
        (30, events.ProgressMade("localhost", W0, b'{"step": 812}')),
        exited(33, W0, None, 9),
        exited(33, W1, None, 15),
        *emptied(33, W0, W1),
    )
    assert [each.last_report for each in result.endings] == [LastReport(b'{"step": 812}', 3), None]


def test_a_gang_that_does_not_start_in_time_is_stopped() -> None:
    result, script = replay(TWO, started(W0), exited(10.5, W0, None, 15), *emptied(10.5, W0))
    assert script.told[0] == (10, Stop(signal.SIGTERM, 2))
    assert result.endings[0].event == events.TimedOut("localhost", W1, "process", 10)


def test_a_gang_that_reported_steps_and_then_none_for_the_stall_time_is_stopped() -> None:
    result, script = replay(
        TWO,
        *BOTH_STARTED,
        reported(20, W0, 1),
        reported(70, W1, 7),
        exited(171, W0, None, 15),
        exited(171, W1, None, 15),
        *emptied(171, W0, W1),
    )
    assert script.told[0] == (170, Stop(signal.SIGTERM, 2))
    assert result.endings[0].event == events.Stalled(100, "step 7 (worker 1)")
    assert script.said[-1].startswith("no worker made a step for 100 s (timeouts.stall): stopping 2 workers by SIGTERM")


def test_a_program_that_reports_no_steps_never_stalls() -> None:
    result, _ = replay(TWO, *BOTH_STARTED, exited(5000, W0), exited(5000, W1), *emptied(5000, W0, W1))
    assert result.succeeded


def test_a_lost_host_ends_the_attempt_without_waiting_for_what_was_on_it() -> None:
    result, script = replay(TWO, *BOTH_STARTED, (5, events.HostLost("localhost", "killed")))
    assert not result.succeeded
    assert script.said == [], "the report, which comes at once, says why it was lost"


def test_the_others_are_stopped_with_the_name_of_the_host_that_was_lost() -> None:
    local = TWO.tasks
    two_hosts = TWO._replace(tasks=(local[0], local[1]._replace(host="gpu-b")))
    _, script = replay(
        two_hosts,
        *BOTH_STARTED,
        (5, events.HostLost("gpu-b", "the link is cut")),
        exited(6, W0, None, signal.SIGTERM),
        *emptied(6, W0),
    )
    assert script.said == ["gpu-b was lost: stopping 1 worker by SIGTERM; SIGKILL follows after 2 s"]


def test_a_parameter_server_is_stopped_once_all_workers_are_done() -> None:
    result, script = replay(
        plan_of(W0, W1, PS),
        *(started(task) for task in (W0, W1, PS)),
        exited(5, W0),
        exited(6, W1),
        exited(6.1, PS, None, 15),
        *emptied(6.1, W0, W1, PS),
    )
    assert result.succeeded
    assert script.told[0] == (6, Stop(signal.SIGTERM, 2))


COORDINATED = plan_of(CHIEF, W0, W1, PS)
ALL_SERVE = (
    *(started(task) for task in (CHIEF, W0, W1, PS)),
    *((1.0, events.TaskListening("localhost", task)) for task in (CHIEF, W0, W1, PS)),
)


def test_with_parameter_servers_the_training_is_done_when_the_chief_is() -> None:
    result, script = replay(
        COORDINATED,
        *ALL_SERVE,
        exited(5, CHIEF),
        *(exited(5.1, task, None, signal.SIGTERM) for task in (W0, W1, PS)),
        *emptied(5.1, CHIEF, W0, W1, PS),
    )
    assert result.succeeded
    assert script.told[0] == (5, Stop(signal.SIGTERM, 2))
    assert script.said == []


KILLED = "worker 1 on localhost was killed by SIGKILL, not by the launcher; often it is the kernel when memory runs out"


def all_stopped(at: float, *tasks: Task) -> list[tuple[float, events.Event]]:
    """These end by the launcher's SIGTERM, and with them all that was left."""
    return [*(exited(at, task, None, signal.SIGTERM) for task in tasks), *emptied(at, CHIEF, W0, W1, PS)]


def cause_of(result: AttemptResult) -> tuple[Task | None, Kind]:
    cause = root_cause([classify(each) for each in result.endings])
    assert cause is not None
    return cause.task, cause.kind


def test_a_chief_that_coordinates_goes_on_without_a_worker() -> None:
    result, script = replay(
        COORDINATED, *ALL_SERVE, exited(5, W1, None, 9), exited(90, CHIEF), *all_stopped(90.1, W0, PS)
    )
    assert result.succeeded
    assert script.urged == script.said == [f"{KILLED}\n  the chief goes on without it"]
    assert script.told[0] == (90, Stop(signal.SIGTERM, 2))


def test_a_worker_that_a_chief_coordinates_is_started_again_alone() -> None:
    result, script = replay(
        COORDINATED,
        *ALL_SERVE,
        exited(5, W1, None, 9),
        started(W1, 6.1),
        exited(20, W1, None, 9),
        started(W1, 22.1),
        exited(30, W1, None, 9),
        exited(90, CHIEF),
        *all_stopped(90.1, W0, PS),
        max_restarts=2,
    )
    assert result.succeeded
    assert result.lone_restarts == 2
    assert script.again == [(6, W1), (22, W1)]
    assert script.said == [
        f"{KILLED}\n  the chief goes on; worker 1 is started again in 1 s (restart 1 of 2)",
        f"{KILLED}\n  the chief goes on; worker 1 is started again in 2 s (restart 2 of 2)",
        f"{KILLED}\n  the chief goes on without it",
    ]


def test_restarts_of_the_gang_and_of_single_workers_are_counted_together() -> None:
    lone = LoneWorkers(COORDINATED.spec.tasks, RestartLimits(2, backoff=1), used=1)
    lone.note_server(W1)
    ending = Ending(exited(5, W1, None, 9)[1], stopped=False)  # type: ignore[arg-type]
    assert (lone.lose(ending, W1, 5), lone.counted_restarts) == (1, "restart 2 of 2")
    assert lone.lose(ending, W1, 9) is None


def test_bad_usage_is_not_tried_again() -> None:
    _, script = replay(
        COORDINATED, *ALL_SERVE, exited(5, W1, 2), exited(90, CHIEF), *all_stopped(90.1, W0, PS), max_restarts=2
    )
    assert script.again == []


def test_a_chief_that_is_done_while_a_worker_is_to_be_started_again_ends_the_run() -> None:
    result, script = replay(
        COORDINATED, *ALL_SERVE, exited(5, W1, None, 9), exited(5.5, CHIEF), *all_stopped(7, W0, PS), max_restarts=1
    )
    assert result.succeeded
    assert script.again == []


def test_an_interrupt_while_a_worker_is_to_be_started_again_leaves_the_chief_its_grace() -> None:
    result, script = replay(
        COORDINATED,
        *ALL_SERVE,
        exited(5, W1, None, 9),
        interrupted(5.5),
        *all_stopped(9, CHIEF, W0, PS),
        max_restarts=1,
    )
    assert result.interrupted == signal.SIGINT
    assert script.told[0] == (5.5, Stop(signal.SIGINT, 30))
    assert script.again == []


def test_without_any_worker_left_the_chief_would_wait_for_ever() -> None:
    result, script = replay(
        COORDINATED,
        *ALL_SERVE,
        exited(5, W0, 1, tail=OWN),
        exited(8, W1, None, 9),
        *all_stopped(10.1, CHIEF, PS),
    )
    assert not result.succeeded
    assert script.said[:2] == [
        "worker 0 on localhost failed (exit code 1): ValueError: bad label (/home/user/train.py:9)\n"
        "  the chief goes on without it",
        f"{KILLED}\n  no worker is left, and the chief would wait for one for ever",
    ]
    assert script.told[0] == (10, Stop(signal.SIGTERM, 2))
    assert cause_of(result) == (W1, Kind.KILLED)


def test_a_chief_that_ends_well_although_its_last_worker_has_gone_was_done() -> None:
    result, _ = replay(
        COORDINATED,
        *ALL_SERVE,
        exited(5, W0, None, 9),
        exited(8, W1, None, 9),
        exited(9, CHIEF),
        *all_stopped(9.1, PS),
    )
    assert result.succeeded


def test_a_lost_worker_is_the_cause_where_the_chief_only_complains() -> None:
    history = (*ALL_SERVE, exited(5, W1, None, 9), exited(6, CHIEF, 1, tail=COLLATERAL), *all_stopped(8.1, W0, PS))
    result, _ = replay(COORDINATED, *history)
    assert not result.succeeded
    assert cause_of(result) == (W1, Kind.KILLED)


def test_a_lost_worker_is_not_the_cause_of_what_the_chief_fails_of_by_itself() -> None:
    result, _ = replay(
        COORDINATED,
        *ALL_SERVE,
        exited(5, W1, None, 9),
        exited(60, CHIEF, 1, tail=OWN),
        *all_stopped(61, W0, PS),
    )
    assert cause_of(result) == (CHIEF, Kind.CRASHED)


def test_the_death_of_a_parameter_server_ends_the_run() -> None:
    result, script = replay(
        COORDINATED, *ALL_SERVE, exited(5, PS, None, 9), *all_stopped(5.2, CHIEF, W0, W1), max_restarts=2
    )
    assert script.told[0] == (5.05, Stop(signal.SIGTERM, 2))
    assert cause_of(result) == (PS, Kind.KILLED)


def test_a_lost_host_ends_the_run_whatever_it_ran() -> None:
    result, _ = replay(COORDINATED, *ALL_SERVE, (5, events.HostLost("localhost", "link cut")), max_restarts=2)
    assert cause_of(result) == (None, Kind.HOST_LOST)


def test_a_worker_that_fails_before_it_could_serve_ends_the_run() -> None:
    result, script = replay(
        COORDINATED,
        *(each for each in ALL_SERVE if each[1] != events.TaskListening("localhost", W1)),
        exited(5, W1, 1, tail=OWN),
        *all_stopped(5.2, CHIEF, W0, PS),
        max_restarts=2,
    )
    assert script.again == []
    assert script.told[0] == (5.05, Stop(signal.SIGTERM, 2))
    assert cause_of(result) == (W1, Kind.CRASHED)


def test_a_restarted_worker_that_cannot_even_be_started_is_as_good_as_lost() -> None:
    result, script = replay(
        COORDINATED,
        *ALL_SERVE,
        exited(5, W1, None, 9),
        (6.1, events.TaskStartFailed("localhost", W1, "no such file")),
        exited(90, CHIEF),
        *all_stopped(90.1, W0, PS),
        max_restarts=1,
    )
    assert result.succeeded
    assert script.said[-1].endswith("no such file\n  the chief goes on without it")


def test_a_server_that_ends_well_before_the_chief_is_told_of() -> None:
    result, script = replay(
        COORDINATED, *ALL_SERVE, exited(5, W1), exited(90, CHIEF), *all_stopped(90.1, W0, PS), max_restarts=1
    )
    assert result.succeeded
    assert script.said == [
        "worker 1 on localhost has ended (exit code 0) before the chief; "
        "with server.join() it serves until the launcher ends it"
    ]


def test_a_parameter_server_that_leaves_too_early_is_the_cause_of_what_the_chief_complains_of() -> None:
    result, _ = replay(
        COORDINATED, *ALL_SERVE, exited(5, PS), exited(6, CHIEF, 1, tail=COLLATERAL), *all_stopped(8.1, W0, W1)
    )
    cause = root_cause([classify(each) for each in result.endings])
    assert cause is not None
    assert (cause.task, cause.kind) == (PS, Kind.LEFT)
    assert "server.join()" in (cause.remedy or "")


def test_workers_without_a_chief_live_and_die_together() -> None:
    plan = plan_of(W0, W1, PS)
    result, script = replay(
        plan,
        *(started(task) for task in (W0, W1, PS)),
        *((1.0, events.TaskListening("localhost", task)) for task in (W0, W1, PS)),
        exited(5, W1, None, 9),
        *all_stopped(5.2, W0, PS),
        max_restarts=2,
    )
    assert script.told[0] == (5.05, Stop(signal.SIGTERM, 2))
    assert cause_of(result) == (W1, Kind.KILLED)


WITH_EVALUATOR = plan_of(CHIEF, W0, W1, PS, EVALUATOR)
ALL_WORK = (*ALL_SERVE, started(EVALUATOR))
ITS_TURN = "the training is done; evaluator 0 has 60 s for the last checkpoint (timeouts.evaluator)"


def ends_all(at: float, *tasks: Task) -> list[tuple[float, events.Event]]:
    return [*all_stopped(at, *tasks), (at, events.LogEnded("localhost", EVALUATOR))]


def test_an_evaluator_has_until_it_has_seen_the_last_checkpoint() -> None:
    result, script = replay(
        WITH_EVALUATOR,
        *ALL_WORK,
        exited(5, CHIEF),
        (12, events.EvaluatorDone("localhost", EVALUATOR)),
        *ends_all(12.1, W0, W1, PS, EVALUATOR),
    )
    assert result.succeeded
    assert script.awaited == [(5, EVALUATOR)]
    assert script.told[0] == (12, Stop(signal.SIGTERM, 2))
    assert script.said == [ITS_TURN]


def test_an_evaluator_that_ends_by_itself_ends_the_run() -> None:
    result, script = replay(
        WITH_EVALUATOR, *ALL_WORK, exited(5, CHIEF), exited(9, EVALUATOR), *ends_all(9.1, W0, W1, PS)
    )
    assert result.succeeded
    assert script.told[0] == (9, Stop(signal.SIGTERM, 2))


def test_an_evaluator_that_ended_before_the_training_is_not_waited_for() -> None:
    result, script = replay(
        WITH_EVALUATOR, *ALL_WORK, exited(4, EVALUATOR), exited(5, CHIEF), *ends_all(5.1, W0, W1, PS)
    )
    assert result.succeeded
    assert (script.said, script.awaited) == ([], [])


def test_an_evaluator_that_is_never_done_is_stopped_in_the_end() -> None:
    result, script = replay(WITH_EVALUATOR, *ALL_WORK, exited(5, CHIEF), *ends_all(65.1, W0, W1, PS, EVALUATOR))
    assert result.succeeded
    assert script.told[0] == (65, Stop(signal.SIGTERM, 2))
    assert (
        script.said[-1]
        == "the evaluator was not done with the last checkpoint after 60 s (timeouts.evaluator): stopped"
    )


def test_what_ends_while_the_evaluator_is_waited_for_is_no_failure() -> None:
    result, script = replay(
        WITH_EVALUATOR,
        *ALL_WORK,
        exited(5, CHIEF),
        exited(6, W1, None, 9),
        exited(7, PS, 1, tail=OWN),
        (12, events.EvaluatorDone("localhost", EVALUATOR)),
        *ends_all(12.1, W0, EVALUATOR),
        max_restarts=3,
    )
    assert result.succeeded
    assert (script.said, script.again) == ([ITS_TURN], [])


def test_a_stall_is_not_looked_for_while_the_evaluator_is_waited_for() -> None:
    result, _ = replay(
        plan_of(CHIEF, EVALUATOR),
        started(CHIEF),
        started(EVALUATOR),
        (5, events.ProgressMade("localhost", CHIEF, b"{}")),
        exited(95, CHIEF),
        (130, events.EvaluatorDone("localhost", EVALUATOR)),
        exited(130.1, EVALUATOR, None, 15),
        *emptied(130.1, CHIEF, EVALUATOR),
    )
    assert result.succeeded


def test_a_host_that_is_lost_with_the_evaluator_ends_the_wait() -> None:
    result, script = replay(WITH_EVALUATOR, *ALL_WORK, exited(5, CHIEF), (6, events.HostLost("localhost", "link cut")))
    assert script.told[0] == (6, Stop(signal.SIGTERM, 2))
    assert cause_of(result) == (None, Kind.HOST_LOST)
    assert result.training_done


def test_an_interrupt_ends_the_wait_for_the_evaluator() -> None:
    result, script = replay(
        WITH_EVALUATOR, *ALL_WORK, exited(5, CHIEF), interrupted(6), *ends_all(6.1, W0, W1, PS, EVALUATOR)
    )
    assert result.interrupted == signal.SIGINT
    assert script.told[0] == (6, Stop(signal.SIGINT, 2))


def test_an_evaluator_that_fails_leaves_the_training_alone_and_fails_the_run() -> None:
    result, script = replay(
        WITH_EVALUATOR,
        *ALL_WORK,
        exited(3, EVALUATOR, 1, tail=OWN),
        exited(50, CHIEF),
        *ends_all(50.1, W0, W1, PS),
    )
    assert script.told[0] == (50, Stop(signal.SIGTERM, 2))
    assert (result.succeeded, result.training_done) == (False, True)
    assert cause_of(result) == (EVALUATOR, Kind.CRASHED)
    assert script.said == [
        "evaluator 0 on localhost failed (exit code 1): ValueError: bad label (/home/user/train.py:9)\n"
        "  the training goes on without it; the run will end with exit code 1"
    ]


def test_a_chief_that_obeys_the_stop_of_a_failed_gang_has_not_done_the_training() -> None:
    result, _ = replay(COORDINATED, *ALL_SERVE, exited(5, PS, None, 9), exited(5.2, CHIEF), *all_stopped(5.3, W0, W1))
    assert not result.succeeded
    assert not result.training_done


def test_a_service_that_fails_while_training_goes_on_fails_the_run() -> None:
    plan = plan_of(W0, PS)
    result, script = replay(
        plan, started(W0), started(PS), exited(5, PS, 1, tail=OWN), exited(5.2, W0, None, 15), *emptied(5.2, W0, PS)
    )
    assert not result.succeeded
    assert script.told[0] == (5.05, Stop(signal.SIGTERM, 2))


def test_agents_hear_from_the_launcher_several_times_a_lease() -> None:
    _, script = replay(TWO, *BOTH_STARTED, exited(150, W0), exited(150, W1), *emptied(150, W0, W1))
    assert script.beats >= 150 / TIMEOUTS.lease * 4


def test_processes_that_cannot_be_killed_are_named() -> None:
    _, script = replay(
        TWO,
        *BOTH_STARTED,
        exited(5, W0),
        exited(5, W1),
        (16, events.ProcessesSurvived("localhost", (41, 42))),
        *emptied(16, W0, W1),
    )
    assert script.said == ["localhost: these processes could not be killed: 41, 42"]


def test_a_host_that_does_not_answer_to_the_stop_is_given_up() -> None:
    result, script = replay(TWO, *BOTH_STARTED, interrupted(5), interrupted(7), silent=True)
    assert result.interrupted == signal.SIGINT
    assert script.said[-1] == "localhost was lost: its agent does not answer any more"
    assert script.now == 7 + SILENCE


def listening(task: Task, at: float) -> tuple[float, events.Event]:
    return at, events.TaskListening("localhost", task)


def test_a_worker_whose_server_never_comes_up_ends_the_wait_of_the_others() -> None:
    result, script = replay(
        TWO,
        *BOTH_STARTED,
        listening(W0, 3),
        exited(13.1, W0, None, signal.SIGTERM),
        exited(13.1, W1, None, signal.SIGTERM),
        *emptied(13.2, W0, W1),
    )

    assert not result.succeeded
    assert script.told[0] == (13.0, Stop(signal.SIGTERM, 2))
    in_vain = "worker 1 was waited for by the others in vain within timeouts.start (10 s): stopping 2 workers"
    assert script.said[-1].startswith(in_vain)


def test_a_worker_that_left_before_its_server_was_up_is_waited_for_no_longer_than_any_other() -> None:
    result, script = replay(
        TWO,
        *BOTH_STARTED,
        exited(1, W1, 0),
        listening(W0, 3),
        exited(13.1, W0, None, signal.SIGTERM),
        *emptied(13.2, W0, W1),
    )

    assert not result.succeeded
    assert script.told[0] == (13.0, Stop(signal.SIGTERM, 2))


def test_servers_that_are_all_up_may_run_as_long_as_they_like() -> None:
    result, _script = replay(
        TWO,
        *BOTH_STARTED,
        listening(W0, 3),
        listening(W1, 4),
        exited(5000, W0),
        exited(5000, W1),
        *emptied(5000.1, W0, W1),
    )

    assert result.succeeded


def test_a_program_without_any_server_may_run_as_long_as_it_likes() -> None:
    result, _ = replay(TWO, *BOTH_STARTED, exited(5000, W0), exited(5000, W1), *emptied(5000.1, W0, W1))

    assert result.succeeded


def test_nobody_waits_for_the_server_of_an_evaluator() -> None:
    result, _ = replay(
        plan_of(CHIEF, EVALUATOR),
        started(CHIEF),
        started(EVALUATOR),
        listening(CHIEF, 1),
        exited(5000, CHIEF),
        exited(5000.1, EVALUATOR),
        *emptied(5000.2, CHIEF, EVALUATOR),
    )

    assert result.succeeded


def elsewhere(task: Task, *ports: int, dialled: tuple[str, ...] = ()) -> events.TaskWaitsElsewhere:
    return events.TaskWaitsElsewhere("localhost", task, 2222, ports, (), dialled)


def test_a_worker_that_waits_elsewhere_is_told_of_and_nothing_is_stopped() -> None:
    result, script = replay(
        TWO,
        *BOTH_STARTED,
        (40, elsewhere(W1, 12346, dialled=("10.0.0.9:2222",))),
        (41, elsewhere(W0)),
        exited(50, W0),
        exited(50, W1),
        *emptied(50, W0, W1),
    )

    assert result.succeeded
    assert script.said == [
        "worker 1 on localhost has done nothing for 30 s: it listens at port 12346 instead of 2222, for another "
        "cluster than launch's, and waits for 10.0.0.9:2222, which does not answer. "
        f"What to do: let the program use {LAUNCHS_WINS}",
        "worker 0 on localhost has done nothing for 30 s: it has TensorFlow loaded, but listens nowhere (its own port "
        "is 2222), and waits; it is connected to nobody. "
        "What to do: if the others wait for it, see what it does before it creates its strategy or server",
    ]


@pytest.mark.parametrize("plan", [plan_of(W0), plan_of(W0, EVALUATOR)])
def test_nobody_dials_a_worker_alone_or_an_evaluator(plan: AttemptPlan) -> None:
    tasks = [each.task for each in plan.tasks]
    _, script = replay(
        plan,
        *(started(task) for task in tasks),
        *((40, elsewhere(task)) for task in tasks),
        *(exited(50, task) for task in reversed(tasks)),
        *emptied(50, *tasks),
    )

    assert script.said == []


def test_a_port_that_is_taken_twice_ends_the_attempt() -> None:
    shared = events.PortShared("localhost", 12345, ((W0, 41), (W1, 42)))
    result, script = replay(
        TWO,
        *BOTH_STARTED,
        (5, shared),
        exited(5.1, W0, None, 15),
        exited(5.1, W1, 1, tail=COLLATERAL),
        *emptied(5.1, W0, W1),
    )

    assert not result.succeeded
    assert script.told[0] == (5, Stop(signal.SIGTERM, 2))
    assert script.said[0].startswith(
        "localhost: processes 41 and 42 of worker 0 and worker 1 both serve TensorFlow at port 12345, "
        "and a connection reaches any of them: stopping 2 workers by SIGTERM"
    )
    cause = root_cause([classify(each) for each in result.endings])
    assert cause is not None
    assert (cause.kind, cause.task) == (Kind.PORT_SHARED, W0)
