"""Attempts with a chief that coordinates workers and parameter servers, and with an evaluator, event by event."""

from __future__ import annotations

import signal

from support.histories import (
    CHIEF,
    COLLATERAL,
    EVALUATOR,
    OWN,
    PS,
    W0,
    W1,
    emptied,
    exited,
    interrupted,
    plan_of,
    replay,
    started,
)

from launcher.cluster.cluster import RestartLimits
from launcher.cluster.spec import Task
from launcher.hosts import events
from launcher.run.attempt.actions import AttemptResult, StopGang
from launcher.run.attempt.lone_workers import LoneWorkers
from launcher.run.failure.ending import Ending
from launcher.run.failure.failure import Kind

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
    assert script.told[0] == (5, StopGang(signal.SIGTERM, 2))
    assert script.said == []


KILLED = "worker 1 on localhost was killed by SIGKILL, not by the launcher; often it is the kernel when memory runs out"


def all_stopped(at: float, *tasks: Task) -> list[tuple[float, events.Event]]:
    """These end by the launcher's SIGTERM, and with them all that was left."""
    return [*(exited(at, task, None, signal.SIGTERM) for task in tasks), *emptied(at, CHIEF, W0, W1, PS)]


def cause_of(result: AttemptResult) -> tuple[Task | None, Kind]:
    cause = result.cause
    assert cause is not None
    return cause.task, cause.kind


def test_a_chief_that_coordinates_goes_on_without_a_worker() -> None:
    result, script = replay(
        COORDINATED, *ALL_SERVE, exited(5, W1, None, 9), exited(90, CHIEF), *all_stopped(90.1, W0, PS)
    )
    assert result.succeeded
    assert script.urged == script.said == [f"{KILLED}\n  the chief goes on without it"]
    assert script.told[0] == (90, StopGang(signal.SIGTERM, 2))


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
    assert script.told[0] == (5.5, StopGang(signal.SIGINT, 30))
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
    assert script.told[0] == (10, StopGang(signal.SIGTERM, 2))
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
    assert script.told[0] == (5.05, StopGang(signal.SIGTERM, 2))
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
    assert script.told[0] == (5.05, StopGang(signal.SIGTERM, 2))
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
    cause = result.cause
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
    assert script.told[0] == (5.05, StopGang(signal.SIGTERM, 2))
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
    assert script.told[0] == (12, StopGang(signal.SIGTERM, 2))
    assert script.said == [ITS_TURN]


def test_an_evaluator_that_ends_by_itself_ends_the_run() -> None:
    result, script = replay(
        WITH_EVALUATOR, *ALL_WORK, exited(5, CHIEF), exited(9, EVALUATOR), *ends_all(9.1, W0, W1, PS)
    )
    assert result.succeeded
    assert script.told[0] == (9, StopGang(signal.SIGTERM, 2))


def test_an_evaluator_that_ended_before_the_training_is_not_waited_for() -> None:
    result, script = replay(
        WITH_EVALUATOR, *ALL_WORK, exited(4, EVALUATOR), exited(5, CHIEF), *ends_all(5.1, W0, W1, PS)
    )
    assert result.succeeded
    assert (script.said, script.awaited) == ([], [])


def test_an_evaluator_that_is_never_done_is_stopped_in_the_end() -> None:
    result, script = replay(WITH_EVALUATOR, *ALL_WORK, exited(5, CHIEF), *ends_all(65.1, W0, W1, PS, EVALUATOR))
    assert result.succeeded
    assert script.told[0] == (65, StopGang(signal.SIGTERM, 2))
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
    assert script.told[0] == (6, StopGang(signal.SIGTERM, 2))
    assert cause_of(result) == (None, Kind.HOST_LOST)
    assert result.training_done


def test_an_interrupt_ends_the_wait_for_the_evaluator() -> None:
    result, script = replay(
        WITH_EVALUATOR, *ALL_WORK, exited(5, CHIEF), interrupted(6), *ends_all(6.1, W0, W1, PS, EVALUATOR)
    )
    assert result.interrupted == signal.SIGINT
    assert script.told[0] == (6, StopGang(signal.SIGINT, 2))


def test_an_evaluator_that_fails_leaves_the_training_alone_and_fails_the_run() -> None:
    result, script = replay(
        WITH_EVALUATOR,
        *ALL_WORK,
        exited(3, EVALUATOR, 1, tail=OWN),
        exited(50, CHIEF),
        *ends_all(50.1, W0, W1, PS),
    )
    assert script.told[0] == (50, StopGang(signal.SIGTERM, 2))
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
