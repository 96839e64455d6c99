"""What waits for a reader that does not read, and what becomes of it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from launcher.hosts.agent_process import bounded_file
from launcher.hosts.outbox import Outbox

MORE_THAN_A_PIPE_HOLDS = b"x" * (1 << 20)


@pytest.fixture
def pipe() -> Iterator[tuple[int, Outbox]]:
    """The end that is read from, and what is written to the other one."""
    reader, writer = os.pipe()
    outbox = Outbox(writer)
    yield reader, outbox
    outbox.close()
    os.close(reader)


def arrived(reader: int, outbox: Outbox) -> bytes:
    """All that comes while somebody reads."""
    data = b""
    while outbox.pipe is not None:
        data += os.read(reader, 1 << 16)
        outbox.push()
    outbox.close()
    while more := os.read(reader, 1 << 16):
        data += more
    return data


def test_what_does_not_fit_waits_and_all_of_it_arrives_in_order(pipe: tuple[int, Outbox]) -> None:
    reader, outbox = pipe
    for data in (b"first", MORE_THAN_A_PIPE_HOLDS, b"last"):
        outbox.add(data)
        outbox.push()

    assert arrived(reader, outbox) == b"first" + MORE_THAN_A_PIPE_HOLDS + b"last"


def test_no_more_than_one_beat_waits(pipe: tuple[int, Outbox]) -> None:
    reader, outbox = pipe
    outbox.add(MORE_THAN_A_PIPE_HOLDS)
    for _ in range(1000):
        outbox.add_once(b"beat")
        outbox.push()

    assert arrived(reader, outbox) == MORE_THAN_A_PIPE_HOLDS + b"beat"


def test_nothing_waits_for_a_reader_that_has_gone() -> None:
    reader, writer = os.pipe()
    outbox = Outbox(writer)
    os.close(reader)
    outbox.add(MORE_THAN_A_PIPE_HOLDS)
    outbox.push()

    assert outbox.pipe is None
    outbox.close()


def test_nothing_is_taken_once_it_is_closed(pipe: tuple[int, Outbox]) -> None:
    reader, outbox = pipe
    outbox.add(MORE_THAN_A_PIPE_HOLDS)
    outbox.close()
    outbox.add(b"late")
    outbox.push()

    assert outbox.pipe is None
    assert os.read(reader, 1) == b""


def test_who_complains_without_end_fills_no_memory() -> None:
    file = bounded_file("complaint", 1000)
    os.write(file, b"x" * 1000)
    with pytest.raises(PermissionError):
        os.write(file, b"more")

    assert os.lseek(file, 0, os.SEEK_CUR) == 1000
    os.close(file)
