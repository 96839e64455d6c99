"""A worker's log as a stream that only grows, whatever the worker does to the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.on_host.agent.log import CHUNK, LEFT_OUT, TAIL, TRUNCATED, WINDOW, Log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "worker-0.log"
    path.touch()
    return path


@pytest.fixture
def log(path: Path) -> Iterator[Log]:
    log = Log(os.open(path, os.O_RDONLY), 0)
    yield log
    log.close()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def shipped(log: Log, after: bytes = b"") -> bytes:
    """All that comes now, behind what has come: each piece has to join on. The console takes it at once."""
    while True:
        offset, data = log.next_chunk()
        if not data:
            return after
        assert offset == len(after)
        after += data
        log.acknowledge(len(data))


def test_what_is_written_comes_whole_and_in_order(path: Path, log: Log) -> None:
    told = b""
    for size in (1, CHUNK, 3 * WINDOW):
        append(path, os.urandom(size))
        told = shipped(log, told)

    assert told == path.read_bytes()
    assert log.drained


def test_no_more_than_the_window_is_on_its_way(path: Path, log: Log) -> None:
    append(path, bytes(2 * WINDOW))
    told = 0
    while data := log.next_chunk()[1]:
        told += len(data)

    assert told == WINDOW
    log.acknowledge(7)
    assert len(log.next_chunk()[1]) == 7


def test_a_truncated_log_goes_on_where_the_stream_was(path: Path, log: Log) -> None:
    append(path, b"before\n")
    told = shipped(log)
    os.truncate(path, 0)
    assert not log.drained
    told = shipped(log, told)
    append(path, b"after\n")

    assert shipped(log, told) == b"before\n" + TRUNCATED + b"after\n"
    assert log.drained


def test_a_truncated_log_that_was_written_to_again_is_told_from_its_beginning(path: Path, log: Log) -> None:
    append(path, b"a long line without an end")
    told = shipped(log)
    os.truncate(path, 0)
    append(path, b"after\n")

    assert shipped(log, told) == b"a long line without an end\n" + TRUNCATED + b"after\n"


@pytest.mark.parametrize("after", [b"line 2\n", b"line 2\nline 3\n"], ids=["as long", "longer"])
def test_a_truncated_log_that_has_grown_again_is_told_from_its_beginning(path: Path, log: Log, after: bytes) -> None:
    append(path, b"line 1\n")
    told = shipped(log)
    os.truncate(path, 0)
    append(path, after)
    assert not log.drained

    assert shipped(log, told) == b"line 1\n" + TRUNCATED + after
    assert log.drained
    assert log.tail() == after


def test_a_log_may_be_truncated_again_and_again(path: Path, log: Log) -> None:
    told = b""
    for _ in range(3):
        append(path, b"12345\n")
        told = shipped(log, told)
        os.truncate(path, 0)
        told = shipped(log, told)

    assert told == 3 * (b"12345\n" + TRUNCATED)
    assert log.drained


def test_the_end_of_a_truncated_log_is_all_that_stands_there(path: Path) -> None:
    append(path, b"what an earlier process of the task has left\n")
    log = Log(os.open(path, os.O_RDONLY), path.stat().st_size)
    os.truncate(path, 0)
    append(path, b"ValueError: short\n")

    assert log.tail() == b"ValueError: short\n"
    log.close()


def test_a_task_that_is_started_again_goes_on_in_the_stream(path: Path) -> None:
    append(path, b"first process\n")
    former = Log(os.open(path, os.O_RDONLY), 0)
    told = former.next_chunk()[1]
    append(path, b"its last words\n")
    log = Log(os.open(path, os.O_RDONLY), path.stat().st_size)
    log.go_on_after(former)
    append(path, b"second process\n")

    assert shipped(log, told) == b"first process\nits last words\nsecond process\n"
    assert log.tail() == b"second process\n"
    log.close()


# ---- the end of a log
HEAD = b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    f()\n'


def test_a_short_log_is_told_whole_at_the_end(path: Path, log: Log) -> None:
    append(path, HEAD + b"KeyError: 7\n")

    assert log.tail() == HEAD + b"KeyError: 7\n"


def test_where_the_end_of_a_long_log_is_told_it_says_that_something_is_left_out(path: Path, log: Log) -> None:
    append(path, b"step done\n" * TAIL)

    assert log.tail() == LEFT_OUT + b"\n" + (b"step done\n" * TAIL)[-TAIL:]


@pytest.mark.parametrize("between", [b"\n", b""], ids=["many lines", "one line"])
@pytest.mark.parametrize("count", [TAIL // 8, TAIL, 8 * TAIL])
def test_of_a_long_message_the_middle_is_left_out_and_marked(path: Path, log: Log, between: bytes, count: int) -> None:
    numbers = between.join([b" 0.125 0.25"] * count)
    append(path, b"step done\n" * 100 + HEAD + b"ValueError: bad array: [" + numbers + b"] in this batch\n")

    begin, marked, end = log.tail().partition(LEFT_OUT)

    assert begin.startswith(HEAD + b"ValueError: bad array: [ 0.125 0.25")
    assert marked
    assert end.endswith(b" 0.125 0.25] in this batch\n")
    assert len(log.tail()) < TAIL + 10


def test_a_traceback_after_which_a_program_went_on_is_not_told(path: Path, log: Log) -> None:
    append(path, HEAD + b"KeyError: 7\n" + b"step done\n" * TAIL)

    assert HEAD not in log.tail()
