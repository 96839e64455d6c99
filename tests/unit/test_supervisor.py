"""An attempt, event by event; what the hosts are told is compared."""

from __future__ import annotations

import signal

import pytest
from support.histories import (
    CHIEF,
    COLLATERAL,
    EVALUATOR,
    OWN,
    PS,
    TIMEOUTS,
    W0,
    W1,
    emptied,
    exited,
    interrupted,
    plan_of,
    replay,
    reported,
    started,
)

from launcher.cluster.plan import AttemptPlan
from launcher.cluster.spec import Task
from launcher.hosts import events
from launcher.run.attempt.actions import StopGang
from launcher.run.attempt.gang import SILENCE
from launcher.run.failure.failure import Kind, LastStep
from launcher.run.failure.misplaced_servers import LEAVE_OUT, START_PYTHON

TWO = plan_of(W0, W1)
BOTH_STARTED = (started(W0), started(W1))


def test_it_succeeds_when_every_worker_exits_zero_and_then_clears_what_they_left() -> None:
    result, script = replay(TWO, *BOTH_STARTED, exited(5, W0), exited(6, W1), *emptied(6, W0, W1))
    assert result.succeeded
    assert script.told == [(6, StopGang(signal.SIGTERM, 2))]
    assert script.said == []


def test_one_worker_that_is_done_does_not_stop_the_other() -> None:
    result, script = replay(TWO, *BOTH_STARTED, exited(1, W0), exited(50, W1), *emptied(50, W0, W1))
    assert result.succeeded
    assert script.told == [(50, StopGang(signal.SIGTERM, 2))]


def test_a_killed_worker_stops_the_gang_after_a_short_settling() -> None:
    result, script = replay(
        TWO, *BOTH_STARTED, exited(5, W0, None, 9), exited(5.06, W1, None, 15), *emptied(5.06, W0, W1)
    )
    assert not result.succeeded
    assert script.told[0] == (5.05, StopGang(signal.SIGTERM, 2))


def test_all_dead_is_stopped_at_once_without_settling() -> None:
    _, script = replay(TWO, *BOTH_STARTED, exited(5, W0, 3), exited(5.01, W1, 3), *emptied(5.02, W0, W1))
    assert script.told == [(5.01, StopGang(signal.SIGTERM, 2))]


def test_a_mere_complaint_about_a_peer_leaves_the_peer_time_to_die_of_its_own_error() -> None:
    result, script = replay(
        TWO,
        *BOTH_STARTED,
        exited(5, W0, 1, tail=COLLATERAL),
        exited(6, W1, 1, tail=OWN),
        *emptied(6, W0, W1),
    )
    assert [ending.stopped for ending in result.endings] == [False, False]
    assert script.told == [(6, StopGang(signal.SIGTERM, 2))]


def test_a_complaint_whose_peer_never_dies_stops_the_gang_in_the_end() -> None:
    _, script = replay(
        TWO, *BOTH_STARTED, exited(5, W0, 1, tail=COLLATERAL), exited(9, W1, None, 9), *emptied(9, W0, W1)
    )
    assert script.told[0] == (7, StopGang(signal.SIGTERM, 2))


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
    assert script.told[0] == (5, StopGang(signal.SIGINT, 30))


def test_a_run_that_somebody_asks_a_host_to_end_is_stopped_and_no_success() -> None:
    asked = events.StopRequested("localhost")
    result, script = replay(
        TWO, *BOTH_STARTED, (5, asked), (5.1, asked), exited(6, W0), exited(6, W1), *emptied(6, W0, W1)
    )
    assert (result.interrupted, result.succeeded) == (signal.SIGTERM, False)
    assert script.told[0] == (5, StopGang(signal.SIGTERM, 30))
    assert not [each for each in script.told if each[1].signal == signal.SIGKILL]
    assert script.said[0].startswith("localhost was asked to end the run: stopping 2 workers by SIGTERM")


def test_a_run_that_somebody_asks_a_host_to_end_while_a_failure_stops_it_is_not_started_again() -> None:
    asked = events.StopRequested("localhost")
    result, script = replay(
        TWO, *BOTH_STARTED, exited(5, W0, 3), (5.5, asked), exited(6, W1, None, 15), *emptied(6, W0, W1)
    )
    assert result.interrupted == signal.SIGTERM
    assert script.told[0] == (5.05, StopGang(signal.SIGTERM, 2))
    assert not [each for each in script.told if each[1].signal == signal.SIGKILL]
    assert "localhost was asked to end the run" in script.said


def test_a_run_that_somebody_asks_a_host_to_end_once_it_is_done_is_a_success() -> None:
    asked = events.StopRequested("localhost")
    result, _ = replay(TWO, *BOTH_STARTED, exited(5, W0), exited(6, W1), (6.1, asked), *emptied(6.2, W0, W1))
    assert result.succeeded


def test_sigterm_and_sighup_reach_the_workers_as_sigterm() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        result, script = replay(
            TWO, *BOTH_STARTED, interrupted(5, number), exited(6, W0), exited(6, W1), *emptied(6, W0, W1)
        )
        assert result.interrupted == number
        assert script.told[0] == (5, StopGang(signal.SIGTERM, 30))


def test_the_grace_becomes_short_once_a_peer_is_gone() -> None:
    _, script = replay(
        TWO, *BOTH_STARTED, interrupted(5), exited(6, W0, 1), exited(8, W1, None, 9), *emptied(8, W0, W1)
    )
    assert (6, StopGang(0, 2)) in script.told


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
    assert script.told[:2] == [(5, StopGang(signal.SIGINT, 30)), (7.5, StopGang(signal.SIGKILL, 0))]
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
        (5, StopGang(signal.SIGINT, 30)),
        (22, StopGang(signal.SIGKILL, 0)),
        (22.1, StopGang(signal.SIGTERM, 2)),
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
    assert script.told[-1] == (6, StopGang(signal.SIGTERM, 2))


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
    assert (7, StopGang(signal.SIGKILL, 0)) in script.told


def test_the_first_interrupt_of_a_gang_that_is_stopped_after_a_failure_kills_at_once() -> None:
    _, script = replay(
        TWO,
        *BOTH_STARTED,
        exited(5, W0, 3),
        interrupted(6),
        exited(6, W1, None, 9),
        *emptied(6, W0, W1),
    )
    assert (6, StopGang(signal.SIGKILL, 0)) in script.told
    assert script.said[-1] == "SIGINT: killing 1 worker"


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
    assert script.told[0] == (1, StopGang(signal.SIGTERM, 2))
    assert script.said == ["stopping 1 worker by SIGTERM; SIGKILL follows after 2 s"], "its report says the rest"


def test_how_far_a_worker_had_come_is_known_when_it_ends() -> None:
    result, _ = replay(
        TWO,
        *BOTH_STARTED,
        (20, events.ProgressMade("localhost", W0, b'{"step": 811}')),
        (30, events.ProgressMade("localhost", W0, b'{"step": 812}')),
        (31, events.ProgressMade("localhost", W1, b'{"loss": 0.5}')),
        exited(33, W0, None, 9),
        exited(33, W1, None, 15),
        *emptied(33, W0, W1),
    )
    assert [each.last_step for each in result.endings] == [LastStep(812, 3), None]


def test_a_gang_that_does_not_start_in_time_is_stopped() -> None:
    result, script = replay(TWO, started(W0), exited(10.5, W0, None, 15), *emptied(10.5, W0))
    assert script.told[0] == (10, StopGang(signal.SIGTERM, 2))
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
    assert script.told[0] == (170, StopGang(signal.SIGTERM, 2))
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
    assert script.told[0] == (6, StopGang(signal.SIGTERM, 2))


def test_a_service_that_fails_while_training_goes_on_fails_the_run() -> None:
    plan = plan_of(W0, PS)
    result, script = replay(
        plan, started(W0), started(PS), exited(5, PS, 1, tail=OWN), exited(5.2, W0, None, 15), *emptied(5.2, W0, PS)
    )
    assert not result.succeeded
    assert script.told[0] == (5.05, StopGang(signal.SIGTERM, 2))


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
    assert script.said == ["localhost: these processes could not be killed: 41 and 42"]


def test_of_many_processes_that_cannot_be_killed_some_are_named() -> None:
    survived = events.ProcessesSurvived("localhost", tuple(range(1, 4001)))
    _, script = replay(TWO, *BOTH_STARTED, exited(5, W0), exited(5, W1), (16, survived), *emptied(16, W0, W1))

    assert script.said[0].startswith("localhost: these processes could not be killed: 1, 2, 3, ")
    assert script.said[0].endswith(" more")
    assert len(script.said[0]) < 120


def test_no_process_that_could_not_be_killed_is_no_trouble() -> None:
    survived = events.ProcessesSurvived("localhost", ())
    result, _ = replay(TWO, *BOTH_STARTED, exited(5, W0), exited(5, W1), (16, survived), *emptied(16, W0, W1))

    assert result.succeeded


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
    assert script.told[0] == (13.0, StopGang(signal.SIGTERM, 2))
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
    assert script.told[0] == (13.0, StopGang(signal.SIGTERM, 2))


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


def started_with(plan: AttemptPlan, env: dict[str, str]) -> AttemptPlan:
    return plan._replace(tasks=tuple(each._replace(env=env) for each in plan.tasks))


@pytest.mark.parametrize(
    ("env", "remedy"),
    [({"LAUNCH_TF_CONFIG": "0"}, LEAVE_OUT), ({}, LEAVE_OUT), ({"LAUNCH_TF_CONFIG": "{}"}, START_PYTHON)],
)
def test_a_worker_that_waits_elsewhere_is_told_of_and_nothing_is_stopped(env: dict[str, str], remedy: str) -> None:
    result, script = replay(
        started_with(TWO, env),
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
        f"What to do: let the program use {remedy}",
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
    assert script.told[0] == (5, StopGang(signal.SIGTERM, 2))
    assert script.said[0].startswith(
        "localhost: processes 41 and 42 of worker 0 and worker 1 both serve TensorFlow at port 12345, "
        "and a connection reaches any of them: stopping 2 workers by SIGTERM"
    )
    cause = result.cause
    assert cause is not None
    assert (cause.kind, cause.task) == (Kind.PORT_SHARED, W0)


@pytest.mark.parametrize(("env", "is_told"), [({}, True), ({"LAUNCH_KERAS_FIX": "/fix"}, False)], ids=["out", "in"])
def test_the_keras_fix_is_asked_for_by_those_who_started_without_it(env: dict[str, str], is_told: bool) -> None:
    plan = started_with(plan_of(W0), env)
    said = OWN.replace(b"ValueError: bad label", b"ValueError: an unsupported type PerReplica")

    result, _ = replay(plan, started(W0), exited(1, W0, 1, tail=said), *emptied(2, W0))

    assert result.cause is not None
    assert ("leave --no-keras-fix" in (result.cause.remedy or "")) is is_told
