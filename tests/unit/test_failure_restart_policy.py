"""Whether the gang is started again, decided from the attempts that failed."""

from __future__ import annotations

import pytest

from launcher.cluster.cluster import RestartLimits
from launcher.cluster.spec import Task
from launcher.run.failure.failure import Failure, Kind
from launcher.run.failure.restart_policy import FailedAttempt, GiveUp, Restart, decide

CRASH = Failure(Kind.CRASHED, "gpu-a", Task("worker", 0), exit_code=1, summary="ValueError: record 7")
KILL = Failure(Kind.KILLED, "gpu-a", Task("worker", 1), signal=9)
USAGE = Failure(Kind.BAD_USAGE, "gpu-a", Task("worker", 0), exit_code=2)


def test_by_default_nothing_is_restarted() -> None:
    assert GiveUp("max_restarts is 0") == decide((FailedAttempt(KILL),), RestartLimits())


def test_the_wait_doubles_up_to_a_minute() -> None:
    limits = RestartLimits(max_restarts=100, backoff=1)
    attempts = tuple(FailedAttempt(KILL, step, step + 1) for step in range(9))

    waits = [decide(attempts[: count + 1], limits) for count in range(9)]

    assert [Restart(wait) for wait in (1, 2, 4, 8, 16, 32, 60, 60, 60)] == waits


def test_the_wait_stays_finite_after_very_many_restarts() -> None:
    attempts = tuple(FailedAttempt(KILL, step, step + 1) for step in range(5000))

    assert Restart(60) == decide(attempts, RestartLimits(max_restarts=10_000))


def test_restarts_are_counted() -> None:
    attempts = (FailedAttempt(KILL, None, 5), FailedAttempt(CRASH, 5, 9), FailedAttempt(KILL, 9, 12))

    decisions = [decide(attempts[: count + 1], RestartLimits(max_restarts=2)) for count in range(3)]

    assert [Restart(1), Restart(2), GiveUp("max_restarts is 2")] == decisions


def test_bad_usage_is_never_retried() -> None:
    decision = decide((FailedAttempt(USAGE),), RestartLimits(max_restarts=3))

    assert GiveUp("exit code 2 means bad usage, which a restart does not mend") == decision


LASTING = [
    (Failure(Kind.CRASHED, "a", None, 1, summary="ModuleNotFoundError: No module named 'pandas'"), "imported"),
    (Failure(Kind.CRASHED, "a", None, 1, summary="ImportError: cannot import name 'x' from 'y' (y.py)"), "imported"),
    (Failure(Kind.CRASHED, "a", None, 1, summary="SyntaxError: invalid syntax (train.py, line 3)"), "syntax error"),
    (Failure(Kind.CRASHED, "a", None, 1, summary="IndentationError: unexpected indent (a.py, line 1)"), "syntax"),
    (Failure(Kind.NOT_STARTED, "a", None, summary="cannot run nosuch: No such file or directory"), "cannot be run"),
    (Failure(Kind.NOT_STARTED, "a", None, summary="cannot run ./a\nb.sh: Permission denied"), "cannot be run"),
    (Failure(Kind.NOT_STARTED, "a", None, summary="cannot run ./train.py: Exec format error"), "cannot be run"),
    (
        Failure(Kind.NOT_STARTED, "a", None, summary="cannot enter the working directory /x: Not a directory"),
        "cannot be run",
    ),
    (Failure(Kind.EXITED, "a", None, 127, excerpt=("sh: 1: nosuch: not found",)), "cannot be run"),
    (
        Failure(Kind.EXITED, "a", None, 1, excerpt=("error: the workers do not find the same checkpoint (step",)),
        "the same checkpoint",
    ),
    (
        Failure(Kind.CRASHED, "a", None, 1, summary="TrainingError: the workers do not find the same checkpoint ("),
        "the same checkpoint",
    ),
]
PASSING = [
    CRASH,
    KILL,
    Failure(Kind.KILLED, "a", None, signal=9, out_of_memory=True),
    Failure(Kind.CRASHED, "a", None, 1, summary="FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'"),
    Failure(Kind.CRASHED, "a", None, 1, summary="ImportError: libcudart.so.12: cannot open shared object file"),
    Failure(Kind.CRASHED, "a", None, 1, summary="OSError: [Errno 28] No space left on device"),
    Failure(Kind.CRASHED, "a", None, 1, summary="PermissionError: [Errno 13] Permission denied: '/mnt/late'"),
    Failure(Kind.CRASHED, "a", None, 1, summary="ValueError: a ModuleNotFoundError, or a SyntaxError"),
    Failure(Kind.NOT_STARTED, "a", None, summary="cannot run python: Resource temporarily unavailable"),
    Failure(Kind.NOT_STARTED, "a", None, summary="cannot run ./train.sh: Text file busy"),
    Failure(Kind.NOT_STARTED, "a", None, summary="cannot create the log file x: No space left on device"),
    Failure(Kind.NOT_STARTED, "a", None, summary="its process had not started after 120 s (timeouts.start)"),
    Failure(Kind.HOST_LOST, "a", None, summary="no sign of life for 15 s (timeouts.lease)"),
    Failure(Kind.STALLED, "a", None, summary="no training step was reported for 60 s (timeouts.stall)"),
    Failure(Kind.EXITED, "a", None, 1),
    Failure(Kind.EXITED, "a", None, 128),
    Failure(Kind.COLLATERAL, "a", None, 1),
]


@pytest.mark.parametrize(("cause", "reason"), LASTING, ids=[cause.summary or str(cause) for cause, _ in LASTING])
def test_what_cannot_change_by_itself_is_not_tried_again(cause: Failure, reason: str) -> None:
    decision = decide((FailedAttempt(KILL, None, 3), FailedAttempt(cause, 3, 9)), RestartLimits(max_restarts=3))

    assert isinstance(decision, GiveUp)
    assert reason in decision.reason


@pytest.mark.parametrize("cause", PASSING, ids=[cause.summary or str(cause) for cause in PASSING])
def test_what_may_be_otherwise_next_time_is_tried_again(cause: Failure) -> None:
    assert Restart(1) == decide((FailedAttempt(cause),), RestartLimits(max_restarts=3))


def test_a_cause_that_nobody_knows_is_tried_again() -> None:
    assert Restart(1) == decide((FailedAttempt(None),), RestartLimits(max_restarts=3))


@pytest.mark.parametrize(("before", "after"), [(None, None), (5, 5), (5, None)])
def test_the_same_failure_twice_without_a_new_checkpoint_ends_the_run(before: int | None, after: int | None) -> None:
    decision = decide(
        (FailedAttempt(CRASH, None, before), FailedAttempt(CRASH, before, after)), RestartLimits(max_restarts=9)
    )

    assert GiveUp("the same failure came twice, with no new checkpoint in between") == decision


@pytest.mark.parametrize(("before", "after"), [(None, 0), (5, 6)])
def test_the_same_failure_after_progress_is_retried(before: int | None, after: int) -> None:
    decision = decide(
        (FailedAttempt(CRASH, None, before), FailedAttempt(CRASH, before, after)), RestartLimits(max_restarts=9)
    )

    assert Restart(2) == decision


def test_another_failure_without_progress_is_retried() -> None:
    assert Restart(2) == decide((FailedAttempt(CRASH), FailedAttempt(KILL)), RestartLimits(max_restarts=9))


def test_the_loss_of_another_host_is_another_failure() -> None:
    first, second = (Failure(Kind.HOST_LOST, host, None, summary="no sign of life for 15 s") for host in ("a", "b"))

    assert Restart(2) == decide((FailedAttempt(first), FailedAttempt(second)), RestartLimits(max_restarts=9))
    assert isinstance(decide((FailedAttempt(first), FailedAttempt(first)), RestartLimits(max_restarts=9)), GiveUp)


def test_a_decision_needs_an_attempt() -> None:
    with pytest.raises(ValueError, match="there was none"):
        decide((), RestartLimits())
