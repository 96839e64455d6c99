"""Lines that several workers print within a moment are shown once; none is lost, and each worker's keep their order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.spec import Task
from launcher.console.folding import MOMENT, MOST_BYTES, MOST_LINES, Folding, SharedLines

ZERO, ONE, TWO = (Task("worker", index) for index in range(3))
ALL = (ZERO, ONE, TWO)
OWN = b"tf-launch: Keras 3.15.1 under MultiWorkerMirroredStrategy: mended fit\n"


def test_what_all_have_said_is_shown_at_once() -> None:
    folding = Folding(ALL)

    assert folding.add(ZERO, b"Epoch 1\n", 0) == []
    assert folding.add(TWO, b"Epoch 1\n", 0.1) == []
    assert folding.add(ONE, b"Epoch 1\n", 0.2) == [SharedLines(ALL, b"Epoch 1\n")]
    assert folding.next_due is None


def test_what_some_have_said_is_shown_when_the_moment_is_over() -> None:
    folding = Folding(ALL)
    folding.add(ZERO, b"Epoch 1\n", 0)
    folding.add(TWO, b"Epoch 1\n", 0.1)

    assert folding.next_due == MOMENT
    assert folding.flush_due(MOMENT - 0.01) == []
    assert folding.flush_due(MOMENT) == [SharedLines((ZERO, TWO), b"Epoch 1\n")]


def test_what_is_said_after_the_moment_is_shown_again() -> None:
    folding = Folding((ZERO, ONE))
    folding.add(ZERO, b"x\n", 0)
    folding.flush_due(MOMENT)
    folding.add(ONE, b"x\n", MOMENT + 0.01)

    assert folding.flush() == [SharedLines((ONE,), b"x\n")]


def test_what_a_worker_said_before_comes_before() -> None:
    folding = Folding((ZERO, ONE))
    folding.add(ONE, b"warning\n", 0)
    folding.add(ZERO, b"a\nb\n", 0)

    assert folding.add(ONE, b"a\nb\nc\n", 0) == [SharedLines((ONE,), b"warning\n"), SharedLines((ZERO, ONE), b"a\nb\n")]
    assert folding.flush() == [SharedLines((ONE,), b"c\n")]


def test_lines_that_cross_are_both_shown_in_their_order() -> None:
    folding = Folding((ZERO, ONE))
    folding.add(ZERO, b"a\nb\n", 0)

    shown = [*folding.add(ONE, b"b\na\n", 0), *folding.flush()]

    assert lines_of(ZERO, shown) == [b"a", b"b"]
    assert lines_of(ONE, shown) == [b"b", b"a"]


def test_keras_bars_that_differ_in_times_alone_are_one() -> None:
    folding = Folding((ZERO, ONE))
    bar = "\x1b[1m10/10\x1b[0m ━━━ \x1b[1m%s\x1b[0m %s/step - loss: %s\n"
    folding.add(ZERO, (bar % ("1s", "10ms", "2.30")).encode(), 0)

    assert [said.tasks for said in folding.add(ONE, (bar % ("12s", "9ms", "2.30")).encode(), 0)] == [(ZERO, ONE)]

    folding.add(ZERO, (bar % ("1s", "10ms", "2.30")).encode(), 1)
    assert [said.tasks for said in folding.add(ONE, (bar % ("1s", "10ms", "2.31")).encode(), 1)] == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "W0000 00:00:1795313539.271863   15086 op.cc:90] slow",
            "W0000 00:00:1795313539.300000   15087 op.cc:90] slow",
        ),
        ("2026-11-22 02:12:19.271860: W op.cc:90] slow", "2026-11-22 02:12:20.271860: W op.cc:90] slow"),
        ("2026-11-22 02:12:19,271 INFO slow", "2026-11-22 02:12:19,272 INFO slow"),
    ],
)
def test_what_loggers_say_at_different_times_is_the_same(first: str, second: str) -> None:
    folding = Folding((ZERO, ONE))
    folding.add(ZERO, f"{first}\n".encode(), 0)

    assert folding.add(ONE, f"{second}\n".encode(), 0) == [SharedLines((ZERO, ONE), f"{first}\n".encode())]


def test_a_worker_that_writes_no_more_is_not_waited_for() -> None:
    folding = Folding(ALL)
    folding.stop_waiting_for(TWO)
    folding.add(ZERO, b"x\n", 0)

    assert folding.add(ONE, b"x\n", 0) == [SharedLines((ZERO, ONE), b"x\n")]


def test_a_single_worker_waits_for_nobody() -> None:
    assert Folding((ZERO,)).add(ZERO, b"x\n", 0) == [SharedLines((ZERO,), b"x\n")]


def test_what_launch_brings_into_workers_says_the_same_once_however_far_apart() -> None:
    folding = Folding((ZERO, ONE))
    folding.add(ZERO, OWN, 0)

    assert folding.flush_due(MOMENT) == [SharedLines((ZERO,), OWN)]
    assert folding.add(ONE, OWN, 60) == []
    assert folding.flush() == []


def test_a_flood_passes_as_it_comes_until_it_is_calm_again() -> None:
    folding = Folding((ZERO, ONE))
    flood = b"x\n" * (MOST_LINES + 1)
    folding.add(ZERO, b"before\n", 0)

    assert folding.add(ZERO, flood, 0) == [SharedLines((ZERO,), b"before\n" + flood)]
    assert folding.add(ZERO, b"x\n", MOMENT) == [SharedLines((ZERO,), b"x\n")]
    assert folding.add(ZERO, b"x\n", 2 * MOMENT) == []


def test_what_waits_is_bounded() -> None:
    folding = Folding((ZERO, ONE))
    folding.add(ZERO, b"x" * MOST_BYTES + b"\n", 0)

    assert folding.next_due is None


# ---- whatever is said
def lines_of(task: Task, shown: list[SharedLines]) -> list[bytes]:
    return [line for said in shown if task in said.tasks for line in said.lines.splitlines()]


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n"]), min_size=1, max_size=6).map(b"".join)
WRITES = st.lists(st.tuples(st.sampled_from(ALL), LINES, st.sampled_from([0, 0.1, 0.3, 2.0])), max_size=20)


def shown_of(writes: list[tuple[Task, bytes, float]], ending: bool) -> list[SharedLines]:
    folding, now, shown = Folding(ALL), 0.0, []
    for task, lines, pause in writes:
        now += pause
        shown += folding.flush_due(now) + folding.add(task, lines, now)
    if ending:
        folding.stop_waiting_for(ZERO)
        shown += folding.flush_due(now)
    return shown + folding.flush()


@given(WRITES, st.booleans())
def test_each_workers_lines_are_all_shown_in_their_order(writes: list[tuple[Task, bytes, float]], ending: bool) -> None:
    shown = shown_of(writes, ending)

    for task in ALL:
        written = b"".join(lines for each, lines, _ in writes if each == task)
        assert lines_of(task, shown) == written.splitlines()


@given(WRITES)
def test_no_line_waits_longer_than_a_moment(writes: list[tuple[Task, bytes, float]]) -> None:
    folding, now = Folding(ALL), 0.0
    for task, lines, pause in writes:
        now += pause
        folding.flush_due(now)
        folding.add(task, lines, now)
        assert folding.next_due is None or now < folding.next_due <= now + MOMENT


@given(LINES)
def test_workers_that_say_the_same_are_shown_as_one(lines: bytes) -> None:
    folding = Folding(ALL)

    shown = [said for task in ALL for said in folding.add(task, lines, 0)]

    assert shown == [SharedLines(ALL, lines)]
    assert Counter(line for said in shown for line in said.lines.splitlines()) == Counter(lines.splitlines())
