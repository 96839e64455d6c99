"""One end of a member of the gang, understood; made-up events where a recording adds nothing."""

from __future__ import annotations

import signal
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.spec import Task
from launcher.hosts.events import HostLost, Stalled, TaskExited, TaskStartFailed, TimedOut
from launcher.run.failure.ending import Ending
from launcher.run.failure.excerpt import SCREENFUL
from launcher.run.failure.failure import Failure, Kind, LastStep
from launcher.run.failure.report import report
from launcher.run.failure.root_cause import root_cause

WORKER = Task("worker", 1)
TRACEBACK = b'Traceback (most recent call last):\n  File "/home/user/train.py", line 3, in <module>\n    f()\n'
LOST_PEER = b"tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: Socket closed\n"


def exited(
    tail: bytes = b"", code: int | None = 1, by: int | None = None, *, memory: bool = False, stopped: bool = False
) -> Failure:
    return Ending(TaskExited("gpu-a", WORKER, None if by else code, by, memory, tail), stopped).failure


def failure(kind: Kind, index: int = 0, **more: object) -> Failure:
    return Failure(kind, "gpu-a", Task("worker", index), **more)  # type: ignore[arg-type]


# ---- kinds
@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (Ending(HostLost("gpu-a", "connection closed"), stopped=False).failure, Kind.HOST_LOST),
        (Ending(TaskStartFailed("gpu-a", WORKER, "no such program"), stopped=False).failure, Kind.NOT_STARTED),
        (Ending(TimedOut("gpu-a", WORKER, "process", 120), stopped=False).failure, Kind.NOT_STARTED),
        (Ending(TimedOut("gpu-a", WORKER, "server", 120), stopped=False).failure, Kind.NOT_STARTED),
        (Ending(Stalled(600, "step 812 (worker 0)"), stopped=False).failure, Kind.STALLED),
        (exited(by=signal.SIGKILL), Kind.KILLED),
        (exited(by=signal.SIGTERM), Kind.KILLED),
        (exited(by=signal.SIGRTMIN + 3), Kind.KILLED),
        (exited(code=137), Kind.KILLED),
        (exited(by=signal.SIGKILL, memory=True, stopped=True), Kind.KILLED),
        (exited(by=signal.SIGKILL, stopped=True), Kind.STOPPED),
        (exited(code=143, stopped=True), Kind.STOPPED),
        (exited(code=0, stopped=True), Kind.STOPPED),
        (exited(code=0), Kind.LEFT),
        (exited(code=2), Kind.BAD_USAGE),
        (exited(code=200), Kind.EXITED),
        (exited(TRACEBACK + b"KeyError: 'x'\n"), Kind.CRASHED),
        (exited(TRACEBACK + b"KeyError: 'x'\n", by=signal.SIGKILL, stopped=True), Kind.CRASHED),
        (exited(TRACEBACK + b"KeyError: 'x'\n", by=signal.SIGSEGV), Kind.CRASHED),
        (exited(TRACEBACK + LOST_PEER), Kind.COLLATERAL),
        (exited(TRACEBACK + LOST_PEER, by=signal.SIGABRT), Kind.COLLATERAL),
        (exited(b"training failed: " + LOST_PEER, code=5), Kind.COLLATERAL),
        (exited(TRACEBACK + b"KeyboardInterrupt\n", by=signal.SIGINT, stopped=True), Kind.STOPPED),
        (exited(b"last words of no encoding: \xff\xfe\x00", code=1), Kind.EXITED),
    ],
)
def test_an_end_is_of_its_kind(found: Failure, kind: Kind) -> None:
    assert kind is found.kind


def test_the_teardown_of_the_interpreter_does_not_hide_the_traceback() -> None:
    aftermath = b"Exception ignored in: <function A.__del__ at 0x7f>\n" + TRACEBACK + b"AttributeError: gone\n"

    found = exited(TRACEBACK + b"KeyError: 'x'\n" + aftermath)

    assert found.summary == "KeyError: 'x'"
    assert "AttributeError" not in "\n".join(found.excerpt)


def test_an_error_inside_a_dataset_is_summed_up_by_what_the_users_code_raised() -> None:
    log = b"""Traceback (most recent call last):
  File "/home/user/project/train.py", line 25, in <module>
    model.fit(data)
tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node PyFunc defined at (most recent call last):
<stack traces unavailable>
ValueError: image 1337 has no label
Traceback (most recent call last):

  File "/home/user/project/train.py", line 14, in batches
    raise ValueError("image 1337 has no label")

ValueError: image 1337 has no label

\t [[{{node PyFunc}}]]
"""
    found = exited(log)
    assert found.summary == "ValueError: image 1337 has no label"
    assert found.location == "/home/user/project/train.py:14"


def test_an_error_inside_a_dataset_that_another_thread_has_logged_is_not_what_ended_the_program() -> None:
    logged = (
        b"W0000 00:00:1795310828.520964   20077 op_kernel.cc:1845] INVALID_ARGUMENT: ValueError: image 7 has no label\n"
        b"Traceback (most recent call last):\n\n"
        b'  File "/home/user/project/train.py", line 14, in batches\n'
        b'    raise ValueError("image 7 has no label")\n\n'
        b"ValueError: image 7 has no label\n\n"
    )

    assert exited(TRACEBACK + b"OSError: disk gone\n" + logged).summary == "OSError: disk gone"


def test_an_error_raised_from_a_lost_peer_is_a_complaint_too() -> None:
    link = b"\nThe above exception was the direct cause of the following exception:\n\n"

    assert Kind.COLLATERAL is exited(TRACEBACK + LOST_PEER + link + TRACEBACK + b"RuntimeError: it failed\n").kind


def test_a_program_that_is_not_python_shows_its_last_lines() -> None:
    lines = [f"line {number}" for number in range(100)]

    assert tuple(lines[-25:]) == exited("\n".join(lines).encode(), code=9).excerpt


def test_progress_bars_and_colours_are_shown_as_they_ended() -> None:
    assert exited(b"step 1/2\rstep 2/2\r\n\x1b[31mdone\x1b[0m\n", code=9).excerpt == ("step 2/2", "done")


def test_a_traceback_in_lines_that_end_in_carriage_returns_is_found() -> None:
    assert exited((TRACEBACK + b"KeyError: 'x'\n").replace(b"\n", b"\r\n")).summary == "KeyError: 'x'"


def nested(depth: int) -> Exception:
    """An exception as a group of tasks raises it, with a group in it."""
    inner: list[Exception] = [OSError(f"shard {depth}"), nested(depth - 1) if depth else ValueError("no label")]
    try:
        raise ExceptionGroup(f"depth {depth}", inner)
    except ExceptionGroup as group:
        return group


def log_of(error: Exception) -> bytes:
    return "".join(traceback.format_exception(error)).encode()


@pytest.mark.parametrize("depth", range(4))
def test_an_exception_group_is_the_failure_and_not_the_last_of_what_it_holds(depth: int) -> None:
    found = exited(log_of(nested(depth)))

    assert (found.kind, found.summary) == (Kind.CRASHED, f"ExceptionGroup: depth {depth} (2 sub-exceptions)")
    assert found.location is not None
    assert found.location.startswith(__file__)


def test_what_came_of_an_exception_group_is_the_failure() -> None:
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError("no data") from nested(2)

    assert exited(log_of(raised.value)).summary == "RuntimeError: no data"


def test_long_lines_are_cut() -> None:
    assert max(map(len, exited(b"x" * 10_000, code=9).excerpt)) <= 300


PIECES = st.sampled_from(
    [
        TRACEBACK,
        LOST_PEER,
        b"KeyError: 'x'\n",
        b"\n",
        b"step 1\n",
        b"  | x\n",
        b"\xff",
        b"\xe2\x80\xa8",
        b"\r",
        b"ValueError",
    ]
)


@given(st.lists(PIECES | st.binary(max_size=20)), st.sampled_from([0, 1, 2, 3, 134, 255, -9, -11, -6]), st.booleans())
def test_any_log_can_be_classified_and_reported(pieces: list[bytes], status: int, stopped: bool) -> None:
    code, number = (status, None) if status >= 0 else (None, -status)

    found = exited(b"".join(pieces), code=code, by=number, stopped=stopped)

    assert len(report(found, "log")) <= SCREENFUL + 3
    assert not any("\n" in line or "\x1b" in line for line in report(found, "log"))


# ---- the gang
def test_without_any_end_there_is_no_cause() -> None:
    assert root_cause([]) is None


def test_a_gang_that_ended_well_or_was_stopped_has_no_cause() -> None:
    assert root_cause([failure(Kind.LEFT), failure(Kind.STOPPED, 1)]) is None


def test_of_the_same_kind_the_first_to_arrive_is_the_cause() -> None:
    assert failure(Kind.CRASHED, 1) == root_cause([failure(Kind.CRASHED, 1), failure(Kind.CRASHED, 0)])


def test_a_lost_host_goes_before_everything() -> None:
    lost = Failure(Kind.HOST_LOST, "gpu-b", None)

    assert lost == root_cause([*(failure(kind) for kind in Kind if kind is not Kind.HOST_LOST), lost])


def test_complaints_that_accuse_each_other_do_not_hang() -> None:
    first = failure(Kind.COLLATERAL, 0, accused=Task("worker", 1))
    second = failure(Kind.COLLATERAL, 1, accused=Task("worker", 0))

    assert first == root_cause([first, second])


def test_only_complaints_about_peers_are_inconclusive() -> None:
    inconclusive = {kind for kind in Kind if not failure(kind).is_conclusive}

    assert {Kind.LEFT, Kind.COLLATERAL, Kind.STOPPED} == inconclusive


def test_numbers_and_workers_do_not_make_two_failures_differ() -> None:
    first = failure(Kind.CRASHED, 0, summary="ValueError: record 7")
    second = failure(Kind.CRASHED, 1, summary="ValueError: record 1234")

    assert first.same_as(second)
    assert not first.same_as(failure(Kind.CRASHED, 0, summary="KeyError: record 7"))


# ---- the report
@pytest.mark.parametrize(
    ("found", "first_line"),
    [
        (
            exited(TRACEBACK + b"KeyError: 'x'\n"),
            "worker 1 on gpu-a failed (exit code 1): KeyError: 'x' (/home/user/train.py:3)",
        ),
        (
            exited(TRACEBACK + b"KeyError: 'x'\n", by=9, stopped=True),
            "worker 1 on gpu-a failed before the launcher stopped it: KeyError: 'x' (/home/user/train.py:3)",
        ),
        (exited(by=11), "worker 1 on gpu-a was killed by SIGSEGV"),
        (exited(by=9, memory=True), "worker 1 on gpu-a was killed by the kernel: out of memory (SIGKILL)"),
        (
            exited(by=9),
            "worker 1 on gpu-a was killed by SIGKILL, not by the launcher; often it is the kernel when memory runs out",
        ),
        (exited(code=139), "worker 1 on gpu-a was killed by exit code 139: SIGSEGV"),
        (exited(code=3), "worker 1 on gpu-a failed (exit code 3)"),
        (
            Ending(HostLost("gpu-a", "no answer for 15 s"), stopped=False).failure,
            "host gpu-a was lost: no answer for 15 s",
        ),
        (
            Ending(TaskStartFailed("gpu-a", WORKER, "no such program: trian"), stopped=False).failure,
            "worker 1 on gpu-a could not be started: no such program: trian",
        ),
        (
            Ending(Stalled(600, "step 812 (worker 0)"), stopped=False).failure,
            "the run stalled: no worker made a step for 600 s (timeouts.stall); the last was step 812 (worker 0); "
            "which one holds up the others is not known",
        ),
    ],
)
def test_the_first_line_says_who_and_how(found: Failure, first_line: str) -> None:
    assert first_line == report(found, "worker-1.log")[0]


def test_a_report_ends_with_the_log_and_the_remedy() -> None:
    found = exited(b"train.sh: line 1: ./train: No such file or directory\n", code=127)

    lines = report(found, "runs/x/attempt-0/worker-1.log")

    assert lines == [
        "worker 1 on gpu-a failed (exit code 127)",
        "  train.sh: line 1: ./train: No such file or directory",
        "Its whole log: runs/x/attempt-0/worker-1.log",
        "What to do: the command does not exist on gpu-a: check its spelling, `workdir` and PATH there",
    ]


def test_of_a_killed_worker_the_last_step_and_its_own_last_lines_are_told() -> None:
    notice = b"I0000 00:00:1795179917.003950    4349 port.cc:153] oneDNN custom operations are on.\n"

    log = notice + b"tf-launch: mended\nepoch 8\n"
    event = TaskExited("gpu-a", WORKER, None, signal.SIGKILL, False, log)

    lines = report(Ending(event, False, LastStep(812, 3.04)).failure, "worker-1.log")

    assert lines[1:] == [
        "Its last step was 812, 3 s before its end.",
        "  epoch 8",
        "Its whole log: worker-1.log",
    ]


def test_a_traceback_needs_no_last_step() -> None:
    event = TaskExited("gpu-a", WORKER, 1, None, False, TRACEBACK + b"KeyError: 'x'\n")

    lines = report(Ending(event, False, LastStep(812, 3)).failure)

    assert not any("last step" in line for line in lines)


def test_a_lost_host_has_no_log() -> None:
    lost = Ending(HostLost("gpu-a", "gone"), stopped=False).failure

    assert report(lost, "worker-1.log") == ["host gpu-a was lost: gone"]


def test_a_reason_begins_no_line_of_the_report() -> None:
    lost = HostLost("gpu-a", "gone\n[launch] done in 1.0 s\x1b[2J", "try again\n[launch] all is well")

    lines = report(Ending(lost, stopped=False).failure)

    assert lines == [
        r"host gpu-a was lost: gone\n[launch] done in 1.0 s\x1b[2J",
        r"What to do: try again\n[launch] all is well",
    ]
