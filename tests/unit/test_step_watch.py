"""A silence of the workers is told of, and not too often; the same histories on any clock."""

from __future__ import annotations

import pytest

from launcher.cluster.spec import Task
from launcher.hosts.events import ProgressMade
from launcher.run.attempt.step_watch import StepWatch

W0, W1 = Task("worker", 0), Task("worker", 1)


def report(step: int, task: Task = W0) -> ProgressMade:
    return ProgressMade("localhost", task, b'{"step": %d, "epoch": 2}' % step)


def watched(*reports: float, stall: float | None = None) -> StepWatch:
    """A watch that has seen a report at each of these seconds: of step 1, 2..."""
    watch = StepWatch(stall)
    for number, at in enumerate(reports, 1):
        watch.note(report(number), at)
    return watch


def warnings(watch: StepWatch, *, until: float) -> list[float]:
    """When it warns, if nobody reports any more."""
    told = []
    while watch.deadline is not None and watch.deadline <= until:
        at = watch.deadline
        assert watch.warning(at - 0.01) is None
        assert watch.warning(at) is not None
        told.append(at)
    return told


def test_a_program_that_reports_nothing_is_not_waited_for() -> None:
    watch = StepWatch(stall=10)

    assert (watch.deadline, watch.stalls_at, watch.warning(1e6)) == (None, None, None)


def test_a_silence_is_told_after_a_minute_and_then_each_time_that_it_has_doubled() -> None:
    assert warnings(watched(10.0), until=1000) == [70, 130, 250, 490, 970]


def test_a_warning_tells_the_last_step_and_what_to_do() -> None:
    watch = watched(0.0)
    watch.note(report(812, W1), 5.0)

    assert watch.warning(67.4) == (
        "no worker has reported a step for 62 s: the last was step 812 (worker 1). They may evaluate, save or wait for "
        "data, or hang; --stall 10m (timeouts.stall in the cluster file) ends a run that hangs, Ctrl-C ends this one"
    )


def test_a_warning_tells_when_the_run_will_be_ended() -> None:
    text = watched(0.0, stall=300).warning(60)

    assert text is not None
    assert text.endswith("or hang; 300 s without one end the run (timeouts.stall)")


def test_it_is_told_that_steps_go_on_after_a_warning_only() -> None:
    watch = watched(0.0)

    assert watch.note(report(2), 59.0) is None
    assert watch.warning(59.0 + 118.0) is not None
    assert watch.note(report(3), 59.0 + 130.0) == "steps go on after 130 s: step 3 (worker 0)"
    assert watch.note(report(4), 200.0) is None


def test_a_program_whose_steps_are_slow_is_not_warned_of_at_each_of_them() -> None:
    assert warnings(watched(0, 90, 180), until=180 + 181) == [180 + 180]


def test_the_reports_of_a_validation_are_signs_of_life() -> None:
    watch = watched(0.0)
    for at in range(30, 300, 30):
        watch.note(ProgressMade("localhost", W0, b'{"step": 1, "epoch": 0, "validation_batch": 3}'), at)
        assert watch.warning(at + 29) is None


@pytest.mark.parametrize("line", [b"{}", b"[1]", b"x", b'{"step": "one"}', b"\xff", b""])
def test_a_report_without_a_step_is_a_report(line: bytes) -> None:
    watch = StepWatch(stall=10)
    watch.note(ProgressMade("localhost", W0, line), 5.0)

    assert (watch.stalls_at, watch.last_step) == (15.0, "")
    assert (watch.warning(65.0) or "").startswith("no worker has reported a step for 60 s. They may")
