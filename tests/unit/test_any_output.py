"""Whatever a worker writes is read and shown: never an exception, nothing lost, nothing that harms a terminal."""

from __future__ import annotations

import dataclasses
import re

from hypothesis import example, given
from hypothesis import strategies as st

from launcher.cluster.spec import Task
from launcher.console.attempt_text import AttemptText
from launcher.console.terminal import DIM, RESET, Look
from launcher.hosts.events import HostLost, ProgressMade, TaskExited, TaskStartFailed
from launcher.hosts.ssh_complaint import explained
from launcher.run.failure.ending import Ending
from launcher.run.failure.failure import Failure, LastStep, Runtime
from launcher.run.failure.interrupted import last_places
from launcher.run.failure.report import report
from launcher.run.failure.root_cause import root_cause

TASKS = [Task("worker", n) for n in range(2)]
FRAGMENTS = st.sampled_from(
    [
        *(
            b"\n",
            b"\r\n",
            b"\r",
            b"\t",
            b" ",
            b"#",
            b"1",
            b"9" * 5000,
            b"\x1b[31m",
            b"\x1b[",
            b"\x1b]0;",
            b"\x07",
            b"\x9b",
            b"\xc2",
        ),
        *(
            b"\xe2\x80\xae",
            b"\xff",
            b"\0",
            b"Traceback (most recent call last):\n",
            b'  File "a.py", line 1, in f\n    f()\n',
        ),
        *(
            b"  + Exception Group ",
            b"  | ",
            b"ValueError: ",
            b"KeyboardInterrupt\n",
            b"SyntaxError: no\n",
            b"in user code:",
        ),
        b"\nDuring handling of the above exception, another exception occurred:\n\n",
        b"tensorflow.python.framework.errors_impl.UnavailableError: ",
        *(
            b"Collective ops is aborted by: ",
            b"Socket closed",
            b"/job:worker/replica:0/task:",
            b"stopped sending heartbeats): ",
        ),
        *(
            b" unexpectedly tried to connect with a different incarnation",
            b"Error reported from ",
            b"Graph execution error:",
        ),
        *(
            b"Fatal Python error: ",
            b"Exception ignored in",
            b"ERROR ",
            b"No module named 'a'",
            b"Permission denied: 'a'",
        ),
        *(
            b"I0000 00:00:1.1    4 a.cc:1] ",
            b"E0000 00:00:1.1    4 a.cc:1] SessionOptions: ",
            b"1s/step ",
            b"10/10 1s/step\r",
        ),
        *(
            b"REMOTE HOST IDENTIFICATION HAS CHANGED",
            b"ssh-keygen -f /a -R ",
            b"Permissions 0644 for '",
            b"' are too open",
        ),
    ]
)
TEXTS = st.lists(FRAGMENTS | st.binary(max_size=12), max_size=30).map(b"".join)
CHUNKS = st.lists(st.tuples(st.sampled_from(TASKS), TEXTS), max_size=12)


@given(TEXTS, st.sampled_from([0, 1, 2, 42, 126, 127, 134, 137, 255, -6, -9, -11]), st.booleans(), TEXTS)
def test_any_end_is_understood(tail: bytes, status: int, stopped: bool, progress: bytes) -> None:
    code, number = (status, None) if status >= 0 else (None, -status)
    step = ProgressMade("gpu-a", TASKS[0], progress).step
    last_step = None if step is None else LastStep(step, 1.0)
    endings = [Ending(TaskExited("gpu-a", task, code, number, False, tail), stopped, last_step) for task in TASKS]

    understood = [dataclasses.replace(each, runtime=Runtime("python")).failure for each in endings]
    lines = [*report(root_cause(understood) or understood[0], "log"), *last_places(endings, lambda _, place: place)]

    assert all(isinstance(each, Failure) for each in understood)
    assert not any("\n" in line or "\x1b" in line for line in lines)


@given(TEXTS.map(lambda text: text.decode(errors="replace")))
def test_any_words_of_a_host_are_understood(said: str) -> None:
    complaint = explained(said, "exit code 255", "gpu-a", [])
    lost = Ending(HostLost("gpu-a", complaint.reason, complaint.remedy), stopped=False).failure
    failed = Ending(TaskStartFailed("gpu-a", TASKS[0], said), stopped=False, runtime=Runtime("python")).failure

    assert not any("\n" in line or "\x1b" in line for each in (lost, failed) for line in report(each))


@given(CHUNKS, st.integers(0, 12), st.booleans())
def test_a_terminal_gets_nothing_that_harms_it(
    chunks: list[tuple[Task, bytes]], interrupt: int, show_all: bool
) -> None:
    shown = b"".join(pieces_shown(chunks, Look(terminal=True, colour=True), show_all, interrupt))

    text = re.sub(rb"\x1b\[[0-9;:]*m", b"", shown).decode("utf-8", "surrogateescape")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028\udc80-\udc9f]", text)
    assert all(line.startswith("[worker") for line in text.split("\n")[:-1])
    assert shown.endswith(b"\n") or not shown


@given(st.lists(TEXTS.map(lambda text: text.replace(b"\r", b"")), max_size=8))
@example([b"\x1b[2m"])
def test_a_pipe_gets_every_byte(chunks: list[bytes]) -> None:
    look = Look(terminal=False, colour=True)
    shown = b"".join(pieces_shown([(TASKS[0], chunk) for chunk in chunks], look, show_all=True))

    lines = b"".join(chunks).removesuffix(b"\n").split(b"\n") if any(chunks) else []
    bare = [re.sub(rb"^\x1b\[[0-9;]*m\[worker 0\]\x1b\[0m ", b"", line) for line in shown.split(b"\n")[:-1]]
    assert len(bare) == len(lines)
    assert all(found in (line, line + RESET, DIM + line + RESET) for found, line in zip(bare, lines, strict=True))


def pieces_shown(
    chunks: list[tuple[Task, bytes]], look: Look, show_all: bool, interrupt: int | None = None
) -> list[bytes]:
    """All that is shown of what the workers write, a tenth of a second apart."""
    text = AttemptText(TASKS, look, show_all)
    shown: list[bytes] = []
    for number, (task, chunk) in enumerate(chunks):
        if number == interrupt:
            text.interrupt()
        shown += [*text.feed(task, chunk, number / 10), text.flush_due(number / 10)]
    return [*shown, *(text.end_log(task, len(chunks) / 10) for task in TASKS), text.flush()]
