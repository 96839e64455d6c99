"""Whether the gang is started again, decided from the attempts that failed."""

from __future__ import annotations

import pytest

from launcher.cluster import Task
from launcher.failure import Failure, Kind
from launcher.failure.restart_policy import Attempt, GiveUp, Restart, RestartPolicy

CRASH = Failure(Kind.CRASHED, "gpu-a", Task("worker", 0), exit_code=1, summary="ValueError: record 7")
KILL = Failure(Kind.KILLED, "gpu-a", Task("worker", 1), signal=9)
USAGE = Failure(Kind.BAD_USAGE, "gpu-a", Task("worker", 0), exit_code=2)


def test_by_default_nothing_is_restarted() -> None:
    assert GiveUp("max_restarts is 0") == RestartPolicy().decide((Attempt(KILL),))


def test_the_wait_doubles_up_to_a_minute() -> None:
    policy = RestartPolicy(max_restarts=100, backoff=1)
    attempts = tuple(Attempt(KILL, step, step + 1) for step in range(9))

    waits = [policy.decide(attempts[: count + 1]) for count in range(9)]

    assert [Restart(wait) for wait in (1, 2, 4, 8, 16, 32, 60, 60, 60)] == waits


def test_the_wait_stays_finite_after_very_many_restarts() -> None:
    attempts = tuple(Attempt(KILL, step, step + 1) for step in range(5000))

    assert Restart(60) == RestartPolicy(max_restarts=10_000).decide(attempts)


def test_restarts_are_counted() -> None:
    attempts = (Attempt(KILL, None, 5), Attempt(CRASH, 5, 9), Attempt(KILL, 9, 12))

    decisions = [RestartPolicy(max_restarts=2).decide(attempts[: count + 1]) for count in range(3)]

    assert [Restart(1), Restart(2), GiveUp("max_restarts is 2")] == decisions


def test_bad_usage_is_never_retried() -> None:
    decision = RestartPolicy(max_restarts=3).decide((Attempt(USAGE),))

    assert GiveUp("exit code 2 means bad usage, which a restart does not mend") == decision


def test_an_interrupted_run_is_never_retried() -> None:
    assert GiveUp("the run was interrupted") == RestartPolicy(3).decide((Attempt(KILL),), interrupted=True)


@pytest.mark.parametrize(("before", "after"), [(None, None), (5, 5), (5, None)])
def test_the_same_failure_twice_without_a_new_checkpoint_ends_the_run(before: int | None, after: int | None) -> None:
    decision = RestartPolicy(max_restarts=9).decide((Attempt(CRASH, None, before), Attempt(CRASH, before, after)))

    assert GiveUp("the same failure came twice, with no new checkpoint in between") == decision


@pytest.mark.parametrize(("before", "after"), [(None, 0), (5, 6)])
def test_the_same_failure_after_progress_is_retried(before: int | None, after: int) -> None:
    decision = RestartPolicy(max_restarts=9).decide((Attempt(CRASH, None, before), Attempt(CRASH, before, after)))

    assert Restart(2) == decision


def test_another_failure_without_progress_is_retried() -> None:
    assert Restart(2) == RestartPolicy(max_restarts=9).decide((Attempt(CRASH), Attempt(KILL)))


def test_a_decision_needs_an_attempt() -> None:
    with pytest.raises(ValueError, match="there was none"):
        RestartPolicy().decide(())
