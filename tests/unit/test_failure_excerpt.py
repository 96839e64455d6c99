"""What is shown of a log, and which frames of a traceback are the user's own."""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.on_host.agent.log import Log
from launcher.run.failure.excerpt import SCREENFUL, last_lines, log_lines, of_traceback
from launcher.run.failure.frames import is_own, own_places
from launcher.run.failure.numbers import with_short_rows
from launcher.run.failure.traceback_text import Crash, last_crash
from launcher.run.host_contexts import BOOTSTRAP, KERAS_FIX, Names, support_files

HEAD = "Traceback (most recent call last):"
FRAME = ('  File "/home/user/train.py", line 3, in <module>', "    f()")
ARRAY = [" [[0.1 0.2]", *["  [0.5 nan 1.2e-05]"] * 999, "  [0.1 inf]]"]


# ---- whose frames
def test_whatever_launch_brings_into_a_worker_is_not_the_users() -> None:
    here = [*BOOTSTRAP.glob("*.py"), *KERAS_FIX.glob("*.py")]
    names = Names.of("20261122-101500-two_hosts")
    there = f"/home/me/.tf-launch/runs/{names.run_id}"

    assert [path for path in map(str, here) if is_own(path)] == []
    assert [name for name in support_files(names, fix_keras=True, training=False) if is_own(f"{there}/{name}")] == []


@pytest.mark.parametrize(
    "path",
    [
        "/home/me/train.py",
        "train.py",
        "<stdin>",
        "/home/me/support/loss.py",
        "/home/me/training/keras_model.py",
        str(KERAS_FIX.with_name("fit.py")),
        "/home/me/.tf-launch/runs/20261122-101500-two_hosts-8f7787898f778789/support-8f7787898f778789/program/training/fit.py",
    ],
)
def test_a_program_is_the_users_also_where_it_is_the_default_one(path: str) -> None:
    assert is_own(path)


@pytest.mark.parametrize(
    "path",
    [
        "/home/me/venv/lib/python3.12/site-packages/keras/src/trainer.py",
        "/usr/lib64/python3.9/json/decoder.py",
        "h5py/h5f.pyx",
        "<frozen runpy>",
        "<__array_function__ internals>",
        "/tmp/__autograph_generated_file3k2.py",
    ],
)
def test_a_library_is_not_the_users(path: str) -> None:
    assert not is_own(path)


def test_where_only_foreign_frames_are_left_no_place_is_named() -> None:
    foreign = [f'  File "{KERAS_FIX}/steps.py", line 7, in run', '  File "/usr/lib/python3.11/ast.py", line 2']

    assert own_places(foreign) == []


# ---- what is shown
def test_an_array_that_an_exception_quotes_does_not_hide_what_it_says() -> None:
    said = ["ValueError: cannot convert this to a tensor:", *ARRAY, "Its type is PerReplica."]

    shown = of_traceback([HEAD, *FRAME], said)

    assert shown == (HEAD, *FRAME, said[0], ARRAY[0], "  [1000 lines of numbers left out]", said[-1])


def test_a_printed_array_does_not_hide_what_a_program_said_last() -> None:
    assert last_lines(["step 7", *ARRAY]) == ("step 7", ARRAY[0], "  [1000 lines of numbers left out]")


VECTOR = ["[0.5 0.25 0.125", *[" 0.1 nan 1.2e-05"] * 331, " 0.1 0.2 0.3], shape=(999,), dtype=float32)"]
LIST = f"[{', '.join(['0.5', '-1e-05', '3'] * 333)}]"
BLOCKS = ["[[[0.1, 0.2],", *["        [0.3, 0.4]],", "", "       [[0.5, 0.6],"] * 99, "  [0.7, 0.8]]], dtype=float32)"]


def crash_of(*said: str) -> Crash:
    crash = last_crash(log_lines("\n".join([HEAD, *FRAME, *said]).encode()))
    assert crash is not None
    return crash


@pytest.mark.parametrize(
    ("said", "summary", "excerpt"),
    [
        (
            ["ValueError: not finite: tf.Tensor(", *VECTOR],
            "ValueError: not finite: tf.Tensor( [0.5 0.25 0.125 ... (996 more)], shape=(999,), dtype=float32)",
            ["ValueError: not finite: tf.Tensor(", VECTOR[0], "  [331 lines of numbers left out]", VECTOR[-1]],
        ),
        (
            [f"ValueError: bad labels {VECTOR[0]}", *VECTOR[1:-1], " 0.1 0.2 0.3] in this batch", "Look there."],
            "ValueError: bad labels [0.5 0.25 0.125 ... (996 more)] in this batch",
            [
                f"ValueError: bad labels {VECTOR[0]}",
                VECTOR[1],
                "  [330 lines of numbers left out]",
                " 0.1 0.2 0.3] in this batch",
                "Look there.",
            ],
        ),
        (
            [f"ValueError: got {LIST} as labels", "Look there."],
            "ValueError: got [0.5, -1e-05, 3, ... (996 more)] as labels",
            ["ValueError: got [0.5, -1e-05, 3, ... (996 more)] as labels", "Look there."],
        ),
        (
            [f"ValueError: got array({BLOCKS[0]}", *BLOCKS[1:], "Look there."],
            "ValueError: got array([[[0.1, 0.2], [0.3, ... (397 more)]]], dtype=float32)",
            [
                f"ValueError: got array({BLOCKS[0]}",
                BLOCKS[1],
                "  [197 lines of numbers left out]",
                BLOCKS[-1],
                "Look there.",
            ],
        ),
        (
            ["ValueError: Graph execution error:", "", f"assertion failed: [x = ] [{'0.5 ' * 999}0.5] [y = ] [0.5]"],
            "ValueError: assertion failed: [x = ] [0.5 0.5 0.5 ... (997 more)] [y = ] [0.5]",
            [
                "ValueError: Graph execution error:",
                "assertion failed: [x = ] [0.5 0.5 0.5 ... (997 more)] [y = ] [0.5]",
            ],
        ),
        (
            [f"ValueError: not all: {[True, False] * 500}"],
            "ValueError: not all: [True, False, True, ... (997 more)]",
            ["ValueError: not all: [True, False, True, ... (997 more)]"],
        ),
    ],
    ids=["tensor", "vector", "list", "blocks", "graph", "truths"],
)
def test_a_thousand_numbers_do_not_hide_what_an_exception_says(
    said: list[str], summary: str, excerpt: list[str]
) -> None:
    crash = crash_of(*said)

    assert crash.chain[-1].summary == summary
    assert list(crash.excerpt) == [HEAD, *FRAME, *excerpt]


@pytest.mark.parametrize("between", ["\n", ""], ids=["many lines", "one line"])
def test_numbers_are_not_counted_where_the_log_is_not_known_whole(tmp_path: Path, between: str) -> None:
    numbers = between.join([" 0.125 0.25"] * 50_000)
    path = tmp_path / "worker-0.log"
    path.write_text("\n".join([HEAD, *FRAME, f"ValueError: bad array: [0.5{numbers}] in this batch", ""]))
    with closing(Log(os.open(path, os.O_RDONLY), 0)) as log:
        crash = last_crash(log_lines(log.tail()))

    assert crash is not None
    assert crash.chain[-1].summary == "ValueError: bad array: [0.5 0.125 0.25 ...] in this batch"
    assert not any("more)" in line or re.search(r"\d lines of numbers", line) for line in crash.excerpt)


def test_numbers_are_not_counted_where_another_thread_prints_into_an_array() -> None:
    crash = crash_of("ValueError: not finite: tf.Tensor(", *VECTOR[:200], "loader 3 is done", *VECTOR[200:])

    assert crash.chain[-1].summary == "ValueError: not finite: tf.Tensor( [0.5 0.25 0.125 ..."


def test_an_array_that_numpy_has_shortened_is_not_counted() -> None:
    assert with_short_rows(f"[{'0.25 ' * 20} ... {'0.75 ' * 20}]") == "[0.25 0.25 0.25 ... ]"


def test_an_array_of_an_earlier_exception_does_not_hide_the_way_to_the_last_one() -> None:
    link = ["", "During handling of the above exception, another exception occurred:", ""]

    crash = crash_of("ValueError: bad batch tf.Tensor(", *VECTOR, *link, HEAD, *FRAME, "RuntimeError: no training")

    assert crash.excerpt[-4:] == (HEAD, *FRAME, "RuntimeError: no training")
    assert "ValueError: bad batch tf.Tensor(" in crash.excerpt
    assert crash.excerpt[:3] == (HEAD, *FRAME)


def test_a_shape_is_shown_whole() -> None:
    said = "ValueError: " + "the layer cannot take this batch: " * 4 + "(32, 224, 224, 3, 1, 1, 1, 1)"

    assert crash_of(said).excerpt[-1] == said


def test_a_table_of_numbers_is_shown() -> None:
    table = [f"{step} {step / 7:.3f}" for step in range(20)]

    assert last_lines(table) == tuple(table)


def test_of_a_long_message_the_first_words_are_shown() -> None:
    said = ["ValueError: these do not fit:", *(f"  layer {number}" for number in range(100))]

    shown = of_traceback([HEAD, *FRAME * 20], said)

    assert len(shown) == SCREENFUL
    assert shown[0] == HEAD
    assert said[0] in shown
    assert shown[-1] == said[-1]


def test_start_up_notices_alone_are_nothing_to_show() -> None:
    assert last_lines(["I0000 00:00:1795179917.003950    4349 port.cc:153] oneDNN custom operations are on."]) == ()


# ---- in one line
@pytest.mark.parametrize(
    ("said", "summary"),
    [
        (
            'ValueError: in user code:\n\n    File "/home/user/train.py", line 3, in step  *\n        loss(y)\n'
            '    File "/v/site-packages/keras/losses.py", line 9, in f  **\n        g()\n\n'
            "    ValueError: Shapes (2, 1) and (2, 9) are incompatible\n",
            "ValueError: Shapes (2, 1) and (2, 9) are incompatible",
        ),
        (
            "ValueError: Exception encountered when calling Dense.call().\n\n\x1b[1mInput 0 does not fit\x1b[0m\n\n"
            "Arguments received by Dense.call():\n",
            "ValueError: Dense.call(): Input 0 does not fit",
        ),
    ],
)
def test_an_introduction_is_not_what_an_exception_says(said: str, summary: str) -> None:
    crash = last_crash(log_lines("\n".join([HEAD, *FRAME, said]).encode()))

    assert crash is not None
    assert crash.chain[-1].summary == summary


# ---- logs that mean harm
HOSTILE = st.sampled_from(
    ["1", "12", "1 2 3 4", "a", "#", " ", ": ", "\n", "Error", HEAD + "\n", "[", "{{", "\\", "(a+)+"]
)


@given(st.lists(HOSTILE, max_size=40), st.integers(1, 50))
def test_any_text_is_read_and_shown(pieces: list[str], times: int) -> None:
    last_crash(log_lines(("".join(pieces) * times).encode()))


def test_lines_of_many_numbers_inside_a_traceback_are_read_at_once() -> None:
    """Lines that differ in numbers only are the same; there are exponentially many ways to see these as such."""
    line = "1#" * 2000 + "x"
    log = "\n".join([line, HEAD, *FRAME, line, *FRAME, "1#" * 6000, "ValueError: no"])

    crash = last_crash(log_lines(log.encode()))

    assert crash is not None
    assert crash.chain[-1].summary == "ValueError: no"
