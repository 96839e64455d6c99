"""A line a worker after a Ctrl-C: where it was, or how else it ended."""

from __future__ import annotations

import signal

import pytest
from test_interruption import FRAMES, FULL_DISK, INTERRUPTED, LOST_PEER, OWN, REPLACED

from launcher.cluster.spec import Task
from launcher.hosts.events import HostLost, TaskExited
from launcher.run.failure.ending import Ending
from launcher.run.failure.failure import LastStep
from launcher.run.failure.interrupted import last_places

W0, W1 = Task("worker", 0), Task("worker", 1)
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def ending(task: Task, log: str, code: int | None = None, number: int | None = None, step: int | None = None) -> Ending:
    event = TaskExited("localhost", task, code, number, False, log.encode())
    return Ending(event, stopped=True, last_step=LastStep(step, 0.2) if step else None)


def line(log: str, code: int | None = None, number: int | None = None) -> str:
    (said,) = last_places([ending(W1, log, code, number)], lambda _, place: place)
    return said


def test_each_worker_is_told_of_once_in_the_order_of_the_tasks() -> None:
    endings = [
        ending(W1, INTERRUPTED, number=signal.SIGINT, step=812),
        Ending(HostLost("gpu-b", "gone"), stopped=True),
        ending(W0, INTERRUPTED, number=signal.SIGINT),
    ]

    assert list(last_places(endings, lambda task, place: place.removeprefix("/home/user/") + f" of {task.index}")) == [
        "worker 0 was at train.py:9 of 0",
        "worker 1 was at train.py:9 of 1 (step 812)",
    ]


@pytest.mark.parametrize(
    "log", [INTERRUPTED, LOST_PEER, REPLACED, LOST_PEER + DURING + INTERRUPTED, OWN + DURING + INTERRUPTED]
)
def test_the_place_is_the_deepest_line_of_the_programs_own(log: str) -> None:
    library = '  File "/usr/lib/python3.11/threading.py", line 1116, in join\n    self._wait()\n'

    assert (
        line(log.replace("    ^^^^^^\n", f"    ^^^^^^\n{library}"), code=1) == "worker 1 was at /home/user/train.py:9"
    )


@pytest.mark.parametrize("log", [OWN, INTERRUPTED + DURING + OWN])
def test_a_program_that_failed_while_it_stopped_is_told_of(log: str) -> None:
    assert line(log, code=1) == 'worker 1 failed: ValueError: cannot save to "/full"'
    assert line(FULL_DISK, code=1).startswith("worker 1 failed: ResourceExhaustedError: /full/ckpt: No space left")


@pytest.mark.parametrize(
    ("log", "code", "number", "said"),
    [
        ("saved\n", 0, None, "ended with exit code 0"),
        ("saved\n", 42, None, "ended with exit code 42"),
        ("", None, signal.SIGTERM, "was ended by SIGTERM"),
        ("", 143, None, "was ended by SIGTERM"),
        ("", None, signal.SIGKILL, "was killed"),
        (FRAMES.replace("/home/user", "/usr/lib/python3.11") + "KeyboardInterrupt\n", None, 2, "was ended by SIGINT"),
    ],
)
def test_other_ends_are_told_as_they_are(log: str, code: int | None, number: int | None, said: str) -> None:
    assert line(log, code, number) == f"worker 1 {said}"
