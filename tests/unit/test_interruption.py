"""After a Ctrl-C the console hides what the interrupt itself brought about, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.console import interruption
from launcher.console.interruption import InterruptionReader

RECORDED = Path(__file__).parent / "failure_tails"
FRAMES = """\
Traceback (most recent call last):
  File "/home/user/train.py", line 9, in <module>
    step()
    ^^^^^^
"""
INTERRUPTED = FRAMES + "KeyboardInterrupt\n"
OWN = FRAMES + 'ValueError: cannot save to "/full"\n'
LOST_PEER = (
    FRAMES
    + """\
tensorflow.python.framework.errors_impl.UnavailableError: Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
  File "/home/user/train.py", line 9, in <module>

Collective ops is aborted by: Socket closed
Additional GRPC error information from remote target /job:worker/replica:0/task:1 while calling RecvBuf:
:UNKNOWN:Error received from peer  {grpc_status:14, grpc_message:"Socket closed"}
The error could be from a previous operation. Restart your program to reset.
\t [[{{node CollectiveReduceV2}}]] [Op:__inference_step_34]
"""
)
FULL_DISK = FRAMES + (
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: /full/ckpt: No space left on device [Op:SaveV2]\n"
)
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
REPLACED = (
    FRAMES
    + """\
RuntimeError: pybind11::error_already_set: MISMATCH of original and normalized active exception types: ORIGINAL \
UnavailableError REPLACED BY KeyboardInterrupt: <EMPTY MESSAGE>

At:
  /venv/lib/python3.11/site-packages/tensorflow/python/framework/errors_impl.py(474): __init__
  /home/user/train.py(9): <module>

"""
)
NATIVE = """\
E0000 00:00:1795180257.124224   14761 ring_alg.cc:291] Aborting RingReduce with UNAVAILABLE: Socket closed
Additional GRPC error information from remote target /job:worker/replica:0/task:1 while calling RecvBuf:
:UNKNOWN:Error received from peer  {grpc_status:14, grpc_message:"Socket closed"}
"""


def shown(text: str) -> str:
    reader = InterruptionReader()
    return (reader.feed(text.encode()) + reader.flush()).decode()


@pytest.mark.parametrize(
    "hidden",
    [
        INTERRUPTED,
        LOST_PEER,
        REPLACED,
        NATIVE,
        NATIVE + LOST_PEER,
        INTERRUPTED + DURING + INTERRUPTED,
        LOST_PEER + DURING + INTERRUPTED,
        "Process ForkProcess-1:\n" + INTERRUPTED,
        "Exception ignored in: <function _after_fork at 0x7f>\n" + INTERRUPTED,
        FRAMES + INTERRUPTED + "    more()\nKeyboardInterrupt\n",  # two processes into one log
        FRAMES + "KeyboardInterrupt: \n",
    ],
)
def test_what_the_interrupt_brought_about_is_hidden(hidden: str) -> None:
    assert shown(f"step 3\n{hidden}saved step 3\n") == "step 3\nsaved step 3\n"
    assert shown(hidden) == ""


@pytest.mark.parametrize(
    "news",
    [
        OWN,
        FULL_DISK,
        "Exception in thread saver:\n" + OWN,
        "Process all of it:\n",
        "Process ForkProcess-1:\nis a line of a program\n",
        FRAMES,
        "a line\n\n  indented\n",
    ],
)
def test_all_else_is_shown(news: str) -> None:
    assert shown(news) == news
    assert shown(news + "later\n") == news + "later\n"


def test_a_failure_that_came_of_the_interrupt_is_shown_alone() -> None:
    assert shown(INTERRUPTED + DURING + OWN) == OWN


@pytest.mark.parametrize("task", ["worker-0", "worker-1"])
def test_of_a_recorded_interrupt_only_the_programs_own_lines_are_left(task: str) -> None:
    before, _, dying = (RECORDED / "sigint" / f"{task}.log").read_text().partition("step 100 loss 0.800\n")

    assert "Traceback" in dying
    assert "Traceback" not in before
    assert shown(dying) == ""


PARTS = [INTERRUPTED, OWN, NATIVE, FULL_DISK, REPLACED, "Process a-1:\n", "Exception ignored in: a\n"]
PARTS += ["2026-11-21 10:11:12.1: W a\n", "  | " + FRAMES, "a\n", "\n", DURING]


@given(st.lists(st.sampled_from(PARTS), max_size=6))
def test_many_lines_at_once_are_shown_like_one_after_the_other(parts: list[str]) -> None:
    reader, lines = InterruptionReader(), "".join(parts).encode().splitlines(keepends=True)

    assert b"".join([*map(reader.feed, lines), reader.flush()]).decode() == shown("".join(parts))


@given(st.lists(st.sampled_from(PARTS), max_size=6), st.data())
def test_it_does_not_matter_how_the_lines_come(parts: list[str], data: st.DataObject) -> None:
    lines = "".join(parts).encode().splitlines(keepends=True)
    cut = data.draw(st.integers(0, len(lines)))
    reader = InterruptionReader()

    in_two = reader.feed(b"".join(lines[:cut])) + reader.feed(b"".join(lines[cut:])) + reader.flush()

    assert in_two.decode() == shown("".join(parts))


def test_a_traceback_without_an_end_is_not_held_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "MOST_HELD", 10_000)
    reader = InterruptionReader()
    block = b"Traceback (most recent call last):\n" + b"  x\n" * 10_000

    assert reader.feed(block) + reader.flush() == block
    assert len(InterruptionReader().feed(block)) > len(block) // 2
