"""The console, with real pipes and a real terminal."""

from __future__ import annotations

import os
import pty
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.spec import Task
from launcher.console.attempt_text import AttemptText
from launcher.console.console import Console
from launcher.console.lines import final_state
from launcher.console.terminal import Look
from launcher.console.worker_text import BAR_INTERVAL, WorkerText

ZERO, ONE, TEN = Task("worker", 0), Task("worker", 1), Task("worker", 10)
LOGS = {ZERO: "attempt-0/worker-0.log", ONE: "attempt-0/worker-1.log"}
NOTICE = b"I0000 00:00:1795179917.003950    4349 port.cc:153] oneDNN custom operations are on.\n"
PATIENCE = 30.0
"""Seconds until a test that waits for something gives up."""


class Screen:
    """The reading end of an output: everything that was written to it, once it is closed."""

    def __init__(self, writer: int, reader: int) -> None:
        self.writer, self.reader = writer, reader
        self._content = bytearray()
        self._thread = threading.Thread(target=self._read)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def text(self) -> bytes:
        """Close the output; return all that was written to it."""
        self.close_writer()
        if not self._thread.ident:
            self.start()
        self._thread.join(PATIENCE)
        return bytes(self._content)

    def close_writer(self) -> None:
        """No more is written from here."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close_reader(self) -> None:
        """Nobody reads any more."""
        if self.reader >= 0:
            os.close(self.reader)
            self.reader = -1

    def _read(self) -> None:
        with suppress(OSError):  # EIO: a terminal whose other end is closed
            while data := os.read(self.reader, 1 << 16):
                self._content += data


@pytest.fixture
def screen() -> Iterator[Callable[..., Screen]]:
    screens: list[Screen] = []

    def opened(terminal: bool = False, reading: bool = True) -> Screen:
        reader, writer = pty.openpty() if terminal else os.pipe()
        screens.append(Screen(writer, reader))
        if reading:
            screens[-1].start()
        return screens[-1]

    yield opened
    for one in screens:
        one.text()
        one.close_reader()


Opened = Callable[..., Screen]


def nothing(task: Task, count: int) -> None:
    """Nobody counts."""


def console(out: Screen, err: Screen, acknowledge: Callable[[Task, int], None] = nothing, **options: bool) -> Console:
    made = Console(acknowledge, environ={"TERM": "xterm"}, stdout=out.writer, stderr=err.writer, **options)
    made.begin_attempt(LOGS)
    return made


def test_each_line_names_its_worker(screen: Opened) -> None:
    out, err = screen(), screen()
    shown = console(out, err)
    shown.show_log(ZERO, b"one\ntw")
    shown.show_log(ONE, b"other\n")
    shown.show_log(ZERO, b"o\nlast")
    shown.end_log(ZERO)
    assert shown.close(PATIENCE)
    lines = out.text().splitlines()
    assert [line for line in lines if b"worker 0" in line] == [b"[worker 0] one", b"[worker 0] two", b"[worker 0] last"]
    assert [line for line in lines if b"worker 0" not in line] == [b"[worker 1] other"]
    assert err.text() == b""


def test_lines_of_names_of_different_length_are_aligned(screen: Opened) -> None:
    out, err = screen(), screen()
    shown = console(out, err)
    shown.begin_attempt({ZERO: "log", TEN: "log"})
    shown.show_log(ZERO, b"a\n")
    shown.show_log(TEN, b"b\n")
    assert shown.close(PATIENCE)
    assert out.text() == b"[worker 0]  a\n[worker 10] b\n"


def test_a_token_in_a_line_of_the_launcher_is_redacted(screen: Opened) -> None:
    out, err = screen(), screen()
    shown = console(out, err)
    shown.say("it said ghp_0123456789abcdef")
    assert shown.close(PATIENCE)
    assert err.text() == b"[launch] it said <redacted>\n"


def test_the_launchers_own_lines_go_to_stderr(screen: Opened) -> None:
    out, err = screen(), screen()
    shown = console(out, err)
    shown.say("two lines\nof ours: \udcff")
    assert shown.close(PATIENCE)
    assert (out.text(), err.text()) == (b"", b"[launch] two lines\n[launch] of ours: \xff\n")


def test_what_the_launcher_repeats_of_others_cannot_harm_a_terminal(screen: Opened) -> None:
    err = screen()
    shown = console(screen(), err)
    shown.say("gpu-b: \x1b]0;TITLE\x07\x9b2J\u202e\r[launch] done", error=True)
    assert shown.close(PATIENCE)
    assert err.text() == rb"[launch] gpu-b: \x1b]0;TITLE\x07\x9b2J\u202e\r[launch] done" + b"\n"


def test_on_one_file_the_order_is_kept(screen: Opened) -> None:
    both = screen()
    shown = console(both, both)
    for n in range(100):
        shown.show_log(ZERO, b"%d\n" % n)
        shown.say(str(n))
    assert shown.close(PATIENCE)
    assert both.text() == b"".join(b"[worker 0] %d\n[launch] %d\n" % (n, n) for n in range(100))


def test_quiet_shows_the_chief_and_errors_and_acknowledges_all(screen: Opened) -> None:
    out, err = screen(), screen()
    acknowledged: SimpleQueue[tuple[Task, int]] = SimpleQueue()
    shown = console(out, err, lambda *what: acknowledged.put(what), quiet=True)
    shown.show_log(ONE, b"unseen\n")
    shown.show_log(ZERO, b"chief\n")
    shown.end_log(ONE)
    shown.say("unseen")
    shown.say("wrong", error=True)
    assert shown.close(PATIENCE)
    assert (out.text(), err.text()) == (b"[worker 0] chief\n", b"[launch] wrong\n")
    assert [acknowledged.get(timeout=PATIENCE) for _ in range(2)] == [(ONE, 7), (ZERO, 6)]


def test_a_terminal_shows_a_colour_for_each_worker(screen: Opened) -> None:
    tty = screen(terminal=True)
    shown = console(tty, tty)
    shown.show_log(ZERO, b"a\n")
    shown.show_log(ONE, b"\x1b[31mred \x1b[2J\n")
    shown.say("bad", error=True)
    assert shown.close(PATIENCE)
    assert tty.text() == (
        b"\x1b[36m[worker 0]\x1b[0m a\r\n"
        b"\x1b[33m[worker 1]\x1b[0m \x1b[31mred \x1b[0m\r\n"
        b"\x1b[1;31m[launch]\x1b[0m bad\r\n"
    )


def test_no_color_holds_on_a_terminal(screen: Opened) -> None:
    tty = screen(terminal=True)
    shown = console(tty, tty, no_color=True)
    shown.show_log(ZERO, b"\x1b[31mred\x1b[0m\n")
    assert shown.close(PATIENCE)
    assert tty.text() == b"[worker 0] red\r\n"


def test_startup_notices_that_were_asked_for_are_dim_on_a_terminal(screen: Opened) -> None:
    tty = screen(terminal=True)
    shown = console(tty, tty, show_noise=True)
    shown.show_log(ZERO, NOTICE + b"Epoch 1\n")
    assert shown.close(PATIENCE)
    dimmed = b"\x1b[36m[worker 0]\x1b[0m \x1b[2m" + NOTICE[:-1] + b"\x1b[0m\r\n"
    assert tty.text() == dimmed + b"\x1b[36m[worker 0]\x1b[0m Epoch 1\r\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_startup_notices_are_folded(screen: Opened, terminal: bool) -> None:
    out, err = screen(terminal=terminal), screen()
    shown = console(out, err)
    shown.show_log(ZERO, NOTICE * 3 + b"Epoch 1\n" + NOTICE)
    assert shown.close(PATIENCE)
    assert uncoloured(out.text()) == b"[worker 0] Epoch 1\n"
    assert err.text() == b"[launch] TensorFlow's start-up notices are left out here; the logs in attempt-0 have them\n"


def test_that_notices_are_left_out_is_said_once_for_all_workers_and_attempts(screen: Opened) -> None:
    out, err = screen(), screen()
    shown = console(out, err)
    shown.show_log(ZERO, NOTICE)
    shown.show_log(ONE, NOTICE)
    shown.begin_attempt({ZERO: "attempt-1/worker-0.log"})
    shown.show_log(ZERO, NOTICE)
    assert shown.close(PATIENCE)
    assert (out.text(), err.text().count(b"\n")) == (b"", 1)


def uncoloured(text: bytes) -> bytes:
    return re.sub(rb"\x1b\[\d*m|\r", b"", text)


def test_startup_notices_can_be_asked_for(screen: Opened) -> None:
    out, err = screen(), screen()
    shown = console(out, err, show_noise=True)
    shown.show_log(ZERO, NOTICE)
    assert shown.close(PATIENCE)
    assert out.text() == b"[worker 0] " + NOTICE


def test_nobody_waits_for_a_stopped_reader(screen: Opened) -> None:
    out, err = screen(reading=False), screen()
    acknowledged: SimpleQueue[int] = SimpleQueue()
    shown = console(out, err, lambda _, count: acknowledged.put(count))
    line = b"x" * 99 + b"\n"
    for _ in range(64):
        shown.show_log(ZERO, line * 1000)
    shown.say("seen at once", error=True)
    assert not shown.drain(0.1)
    assert acknowledged.qsize() < 64
    out.start()
    assert shown.close(PATIENCE)
    assert err.text() == b"[launch] seen at once\n"
    assert out.text() == (b"[worker 0] " + line) * 64_000
    assert sum(acknowledged.get(timeout=PATIENCE) for _ in range(64)) == 64 * 1000 * len(line)


def test_a_stuck_reader_can_be_abandoned(screen: Opened) -> None:
    out, err = screen(reading=False), screen()
    shown = console(out, err)
    shown.show_log(ZERO, b"x\n" * 1_000_000)
    assert not shown.close(0.05)
    out.close_reader()
    assert shown.close(PATIENCE)


def test_the_run_goes_on_when_nobody_reads(screen: Opened) -> None:
    out, err = screen(reading=False), screen()
    acknowledged: SimpleQueue[int] = SimpleQueue()
    out.close_reader()
    shown = console(out, err, lambda _, count: acknowledged.put(count))
    for _ in range(3):
        shown.show_log(ZERO, b"line\n")
    assert shown.close(PATIENCE)
    assert [acknowledged.get(timeout=PATIENCE) for _ in range(3)] == [5, 5, 5]
    said = err.text()
    assert said.count(b"\n") == 1
    assert b"stdout is closed" in said


def test_a_full_disk_behind_stdout_is_told(screen: Opened) -> None:
    err = screen()
    with Path("/dev/full").open("wb") as full:
        shown = Console(nothing, environ={}, stdout=full.fileno(), stderr=err.writer)
        shown.begin_attempt(LOGS)
        shown.show_log(ZERO, b"line\n")
        assert shown.close(PATIENCE)
    assert b"No space left" in err.text()


def test_a_non_blocking_output_gets_all(screen: Opened) -> None:
    out, err = screen(reading=False), screen()
    os.set_blocking(out.writer, False)
    shown = console(out, err)
    shown.show_log(ZERO, b"x\n" * 100_000)
    assert not shown.drain(0.05)
    out.start()
    assert shown.close(PATIENCE)
    assert out.text() == b"[worker 0] x\n" * 100_000


def test_a_new_attempt_starts_afresh(screen: Opened) -> None:
    out, err = screen(), screen()
    shown = console(out, err)
    shown.show_log(ZERO, b"cut off")
    shown.end_log(ZERO)
    shown.begin_attempt({ZERO: "attempt-1/worker-0.log"})
    shown.show_log(ZERO, b"again\n")
    assert shown.close(PATIENCE)
    assert out.text() == b"[worker 0] cut off\n[worker 0] again\n"


def test_a_long_running_bar_shows_signs_of_life() -> None:
    text = AttemptText([ZERO], Look())

    def fed(data: bytes, now: float) -> bytes:
        return b"".join(text.feed(ZERO, data, now))

    assert fed(b"\r1/9\r2/9", 0.0) == b""
    assert fed(b"\r3/9\r", BAR_INTERVAL / 2) == b""
    assert fed(b"4/9\b\b\b\r5/9", BAR_INTERVAL) == b"[worker 0] 4/9\n"
    assert fed(b"\r6/9", BAR_INTERVAL + 1) == b""
    assert fed(b"\r9/9\nnext\n", BAR_INTERVAL + 2) == b"[worker 0] 9/9\n[worker 0] next\n"


def test_of_bars_of_the_same_thing_the_first_workers_is_shown() -> None:
    text = AttemptText([ZERO, ONE], Look())

    def fed(task: Task, data: str, now: float) -> bytes:
        return b"".join(text.feed(task, data.encode(), now))

    for task in (ONE, ZERO):
        assert fed(task, "\r1/9 \u2501 1:03 7s/step - loss: 2.3\r2/9 \u2501", 0) == b""
    late = [fed(task, "\r3/9 \u2501\u2501 59s 6s/step - loss: 2.2\r4/9", BAR_INTERVAL) for task in (ZERO, ONE)]
    later = [fed(task, "\r5/9 \u2501\u2501 9s 6s/step - loss: 2.1\r6/9", 2 * BAR_INTERVAL) for task in (ONE, ZERO)]
    other = fed(ONE, "\r1/7 \u2501\u2501 9s 6s/step - accuracy: 0.5\r2/7", 3 * BAR_INTERVAL)

    assert [bool(shown) for shown in (*late, *later, other)] == [True, False, False, True, True]
    assert late[0].startswith(b"[worker 0] 3/9")


def test_what_workers_print_alike_is_shown_once(screen: Opened) -> None:
    out, err = screen(), screen()
    shown = console(out, err)
    shown.show_log(ZERO, b"Epoch 1\nmine\n")
    shown.show_log(ONE, b"Epoch 1\n")
    assert shown.close(PATIENCE)
    assert out.text() == b"[workers 0-1] Epoch 1\n[worker 0] mine\n"


def test_a_line_that_nobody_else_prints_is_shown_though_nothing_else_happens(screen: Opened) -> None:
    out, err = screen(reading=False), screen()
    shown = console(out, err)
    shown.show_log(ZERO, b"mine\n")
    assert os.read(out.reader, 100) == b"[worker 0] mine\n"
    assert shown.close(PATIENCE)


def test_the_launchers_lines_come_after_what_was_said_before(screen: Opened) -> None:
    both = screen()
    shown = console(both, both)
    shown.show_log(ZERO, b"before\n")
    shown.say("after")
    assert shown.close(PATIENCE)
    assert both.text() == b"[worker 0] before\n[launch] after\n"


def test_each_workers_lines_can_be_asked_for(screen: Opened) -> None:
    out, err = screen(), screen()
    shown = console(out, err, show_noise=True)
    shown.show_log(ZERO, b"Epoch 1\n")
    shown.show_log(ONE, b"Epoch 1\n")
    assert shown.close(PATIENCE)
    assert out.text() == b"[worker 0] Epoch 1\n[worker 1] Epoch 1\n"


PIECES = st.sampled_from(
    [b"line\n", b"\r\n", b"bar\r", b"\xc3", b"\xa9\n", b"partial", b"\x00", NOTICE, b"\n", b"I0000"]
)
BINARY = st.binary(max_size=20).filter(lambda data: b"\x1b" not in data)
READS = st.lists(st.tuples(st.sampled_from([ZERO, ONE]), st.one_of(PIECES, BINARY)), max_size=40)


@given(READS)
def test_no_read_splices_or_loses_a_line(reads: list[tuple[Task, bytes]]) -> None:
    text = AttemptText([ZERO, ONE], Look(), show_all=True)
    shown = b"".join(piece for task, data in reads for piece in text.feed(task, data, 0.0))
    shown += b"".join(text.end_log(task, 0.0) for task in (ZERO, ONE))
    for task in (ZERO, ONE):
        prefix = f"[{task}] ".encode()
        got = [line.removeprefix(prefix) for line in shown.split(b"\n") if line.startswith(prefix)]
        raw = b"".join(data for who, data in reads if who == task)
        lines = raw.split(b"\n")
        expected = [final_state(line) for line in (lines if lines[-1] else lines[:-1])]
        assert got == expected
    assert all(line.startswith(b"[worker ") for line in shown.split(b"\n")[:-1])


@given(st.lists(PIECES, max_size=30), st.lists(st.integers(0, 400), max_size=6), st.booleans())
def test_the_console_is_the_same_for_every_chunking(pieces: list[bytes], cuts: list[int], colour: bool) -> None:
    raw = b"".join(pieces)
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    whole, parts = (WorkerText(show_noise=colour, dim_noise=colour) for _ in range(2))
    in_parts = b"".join(parts.feed(raw[a:b]) for a, b in pairwise(edges)) + parts.flush()
    assert in_parts == whole.feed(raw) + whole.flush()
