"""The line splitter, TensorFlow's noise and what a terminal is spared."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.console.lines import LineSplitter, final_state
from launcher.console.startup_noise import NoiseReader
from launcher.console.terminal import Look

SOURCES = st.sampled_from([b"\r", b"\n", b"\r\n", b"\b", b"a", b"b", b"\xc3\xa9", b"\xff", b"\x1b[1m", b"\x1b", b"\0"])
TEXTS = st.one_of(st.binary(max_size=200), st.lists(SOURCES, max_size=60).map(b"".join))


@st.composite
def chunked(draw: st.DrawFn, texts: st.SearchStrategy[bytes] = TEXTS) -> tuple[bytes, list[bytes]]:
    """A text and one way to cut it, empty reads included."""
    text = draw(texts)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return text, [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def split(chunks: list[bytes]) -> bytes:
    splitter = LineSplitter()
    return b"".join(map(splitter.feed, chunks)) + splitter.flush()


@given(chunked())
def test_lines_are_the_same_for_every_chunking(case: tuple[bytes, list[bytes]]) -> None:
    text, chunks = case
    lines = text.split(b"\n")
    last = [] if not lines[-1] else [lines[-1]]
    expected = b"".join(final_state(line) + b"\n" for line in lines[:-1] + last)
    assert split(chunks) == expected


@given(chunked())
def test_without_carriage_returns_every_byte_comes_back(case: tuple[bytes, list[bytes]]) -> None:
    text, chunks = case
    splitter = LineSplitter()
    plain = [chunk.replace(b"\r", b"") for chunk in chunks]
    lines = b"".join(map(splitter.feed, plain))
    rest = splitter.flush()
    assert lines + rest.removesuffix(b"\n") == text.replace(b"\r", b"")
    assert lines.endswith(b"\n") or not lines


@given(chunked())
def test_only_whole_lines_are_given_out(case: tuple[bytes, list[bytes]]) -> None:
    splitter = LineSplitter()
    for chunk in case[1]:
        lines = splitter.feed(chunk)
        assert not lines or (lines.endswith(b"\n") and b"\n" in chunk)


def test_a_line_of_ten_megabytes_stays_whole() -> None:
    line = bytes(range(32, 127)) * 110_000
    reads = [line[at : at + 65536] for at in range(0, len(line), 65536)]
    assert split([*reads, b"\nnext"]) == line + b"\nnext\n"


def test_a_line_without_end_is_cut_and_says_so() -> None:
    splitter = LineSplitter(longest=10)
    assert splitter.feed(b"123456") == b""
    assert splitter.feed(b"789012") == b"123456789012 [cut: no newline in 12 bytes]\n"
    assert splitter.feed(b"rest\n") == b"rest\n"


def test_utf8_cut_by_a_read_stays_whole() -> None:
    text = "größe ━━━\n".encode()
    assert split([text[at : at + 1] for at in range(len(text))]) == text


def test_windows_line_ends_become_newlines() -> None:
    assert split([b"one\r", b"\ntwo\r\n"]) == b"one\ntwo\n"


def test_a_progress_bar_leaves_its_last_state() -> None:
    assert split([b"\r 1/3\b\b\b\b\r", b" 2/3", b"\r 3/3 done\nnext\n"]) == b" 3/3 done\nnext\n"


def test_an_endless_progress_bar_takes_no_memory() -> None:
    splitter = LineSplitter(longest=1000)
    assert b"".join(splitter.feed(b"\r%06d" % n) for n in range(10_000)) == b""
    assert splitter.flush() == b"009999\n"


def test_the_running_bar_is_a_whole_state_without_backspaces() -> None:
    splitter = LineSplitter()
    splitter.feed(b"\r1/9 loss 0.5")
    assert splitter.bar == b""
    splitter.feed(b"\b\b\b\r2/9 lo")
    assert splitter.bar == b"1/9 loss 0.5"
    splitter.feed(b"ss 0.4\n")
    assert splitter.bar == b""


# As TensorFlow 2.21 and 2.17 write them; the GPU ones are from public issue reports.
NOISE = b"""\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795179917.003950    4349 port.cc:153] oneDNN custom operations are on.
I0000 00:00:1795179917.460637    4349 cpu_feature_guard.cc:227] This TensorFlow binary
To enable the following instructions: FMA, in other operations, rebuild TensorFlow with the appropriate flags.
E0000 00:00:1795179921.431178    4349 cuda_platform.cc:52] failed call to cuInit: INTERNAL: UNKNOWN ERROR (303)
I0000 00:00:1795179921.452878    4349 grpc_server_lib.cc:467] Started server with target: grpc://127.0.0.1:23411
I0000 00:00:1795179921.496934    4378 coordination_service.cc:505] Example stragglers:
/job:worker/replica:0/task:1
I0000 00:00:1795179921.496874    4378 coordination_service.h:529] /job:worker/replica:0/task:0 has connected
W0000 00:00:1795179921.793527    4349 dataset.cc:997] Input of GeneratorDatasetOp::Dataset will not be optimized because
2025-09-17 14:44:05.157831: I external/xla/cudart_stub.cc:32] Could not find cuda drivers
2025-09-17 14:44:05.176998: E external/xla/cuda_fft.cc:467] Unable to register cuFFT factory: Attempting
W0000 00:00:1758131045.228001 3722035 computation_placer.cc:177] computation placer already registered.
2025-09-17 14:44:06.000001: W core/local_rendezvous.cc:404] Local rendezvous is aborting with status: OUT_OF_RANGE: End
\t [[{{node IteratorGetNext}}]]
"""

NEWS = b"""\
Epoch 1/2
E0000 00:00:1795180012.169536    7128 ring_alg.cc:291] Aborting RingReduce with UNAVAILABLE: failed to connect
W0000 00:00:1795180012.169793    7378 local_rendezvous.cc:412] Local rendezvous is aborting with status: UNAVAILABLE
\t [[{{node CollectiveReduceV2}}]]
W0000 00:00:1758131045.228001 3722035 gpu_device.cc:2341] Cannot dlopen some GPU libraries.
E0000 00:00:1795179921.431178    4349 cuda_platform.cc:52] failed call to cuInit: CUDA_ERROR_SYSTEM_NOT_READY
F0000 00:00:1795179921.431178    4349 op.cc:52] Check failed: rank == 2
I1120 13:05:29.123456 140 main.py:12] logged by absl in Python
/job:worker/replica:0/task:1
see file.cc:12] and absl:: and thing.h:3
"""


@pytest.mark.parametrize("line", NOISE.splitlines(keepends=True))
def test_notices_of_a_healthy_start_are_noise(line: bytes) -> None:
    before = NOISE[: NOISE.index(line)]
    reader = NoiseReader()
    assert all(noise for _, noise in reader.marked(before + line))
    assert reader.may_hold_noise(line)


@pytest.mark.parametrize("line", NEWS.splitlines(keepends=True))
def test_what_a_person_must_see_is_no_noise(line: bytes) -> None:
    assert list(NoiseReader().marked(line)) == [(line[:-1], False)]


# What a server of TensorFlow 2.21 writes when its first session begins.
SESSION_OPTIONS = b"""\
I0000 00:00:1795310971.326572   32709 eager_service_impl.cc:349] Creating sync eager service context on /job:worker
I0000 00:00:1795310971.326619   32709 eager_service_impl.cc:355] SessionOptions: goo.gle/debugstr    \n\
device_count {
  key: "CPU"
  value: 1
}
gpu_options {
  experimental {
  }
}
inter_op_parallelism_threads: 5
allow_soft_placement: true
experimental {
  collective_group_leader: "/job:ps/replica:0/task:0"
}

"""
LIKE_OPTIONS = b"""\
device_count {
  key: "CPU"
  value: 1
}
"""


def noise_of(text: bytes) -> list[bool]:
    return [noise for _, noise in NoiseReader().marked(text)]


def test_the_options_of_a_servers_session_are_noise_up_to_the_empty_line_behind_them() -> None:
    assert noise_of(SESSION_OPTIONS) == [True] * SESSION_OPTIONS.count(b"\n")
    assert noise_of(SESSION_OPTIONS + LIKE_OPTIONS)[-4:] == [False] * 4


def test_what_merely_looks_like_a_sessions_options_is_shown() -> None:
    assert noise_of(LIKE_OPTIONS) == [False] * 4
    other_notice = SESSION_OPTIONS.splitlines(keepends=True)[0]
    assert noise_of(other_notice + LIKE_OPTIONS) == [True, *[False] * 4]


@pytest.mark.parametrize("line", [b"loss: 0.5\n", b"results {\n", b"worker serves\n", b" x: 1\n"])
def test_a_line_of_the_programs_own_ends_a_sessions_options(line: bytes) -> None:
    begun = b"".join(SESSION_OPTIONS.splitlines(keepends=True)[:6])
    assert noise_of(begun + line + LIKE_OPTIONS)[6:] == [False] * 5


@given(st.lists(st.sampled_from((NOISE + NEWS + SESSION_OPTIONS).splitlines(keepends=True))), st.lists(st.booleans()))
def test_noise_is_the_same_for_every_grouping_of_lines(lines: list[bytes], cuts: list[bool]) -> None:
    together = list(NoiseReader().marked(b"".join(lines))) if lines else []
    reader, apart, block = NoiseReader(), [], b""
    for n, line in enumerate(lines):
        block += line
        if n + 1 == len(lines) or cuts[n : n + 1] == [True]:
            plain = [(text, False) for text in block[:-1].split(b"\n")]
            apart += list(reader.marked(block)) if reader.may_hold_noise(block) else plain
            block = b""
    assert apart == together


LINES = st.lists(
    st.sampled_from([*b"am[]0123;:J\\ ", 7, 8, 0x9B, 0xC2, 0x90, 0xE2, 0x80, 0xAE, 0x1B, 0x1B, 0x0A]), max_size=60
).map(lambda codes: bytes(codes) + b"\n")


@given(LINES)
def test_a_terminal_gets_no_control_sequence_but_colours(lines: bytes) -> None:
    shown = Look(terminal=True, colour=True).shown(lines)
    without_colours = re.sub(rb"\x1b\[[0-9;:]*m", b"", shown)
    text = without_colours.decode("utf-8", "surrogateescape")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\udc80-\udc9f]", text)
    assert shown.count(b"\n") == lines.count(b"\n")


@given(LINES)
def test_no_colour_outlives_its_line(lines: bytes) -> None:
    shown = Look(terminal=True, colour=True).shown(lines)
    assert all(b"\x1b" not in line or line.endswith(b"\x1b[0m") for line in shown.split(b"\n"))


@pytest.mark.parametrize(
    "harm",
    [
        b"\x1b[2J",
        b"\x1b[10;1H",
        b"\x1b[?1049h",
        b"\x1b]0;title\x07",
        b"\x1b]52;c;aGk=\x1b\\",
        b"\x1bc",
        b"\x1b(0",
        b"\x0e",
        b"\a",
    ],
)
def test_what_would_wreck_a_terminal_is_left_out(harm: bytes) -> None:
    assert Look(terminal=True).shown(b"a" + harm + b"b\n") == b"ab\n"


def test_utf8_controls_are_replaced_and_cannot_join() -> None:
    assert Look(terminal=True).shown(b"\xc2\xc2\x9b\x9b31m\n") == b"\xc2??31m\n"


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u061c", "\u2028", "\u2029", "\x85", "\x9b", "\udc9b"])
def test_what_else_a_terminal_obeys_is_replaced(mark: str) -> None:
    text = f"é{mark}日本 \u200d\udce9\n"
    assert Look(terminal=True).shown(text.encode("utf-8", "surrogateescape")) == text.replace(mark, "?").encode(
        "utf-8", "surrogateescape"
    )


def test_a_pipe_gets_all_bytes_but_colour_codes() -> None:
    assert Look().shown(b"\x1b[32mok\x1b[0m \xff\x00\x07\x1b[2J\n") == b"ok \xff\x00\x07\x1b[2J\n"


@pytest.mark.parametrize(
    ("environ", "no_color", "colour"),
    [
        ({}, False, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, False, True),
        ({"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_the_usual_variables_choose_colours(environ: dict[str, str], no_color: bool, colour: bool) -> None:
    with open("/dev/null", "wb") as file:  # noqa: PTH123
        assert Look.of(file.fileno(), environ, no_color) == Look(terminal=False, colour=colour)
