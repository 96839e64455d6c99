"""What an agent tells becomes an event, or is refused by one error: whatever it is, and wherever reads split it."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.spec import Task
from launcher.doctor.patient import EXAMINED
from launcher.hosts import events
from launcher.hosts.agent_messages import LONGEST_REASON, LONGEST_TEXT, MESSAGES, AgentMessages, Message
from launcher.on_host.agent.facts import facts
from launcher.on_host.agent.framing import FRAME, MOST_BODY, MOST_HEAD, MOST_LISTED, Decoder, UnreadableError, encode

ALL: dict[str, Message] = {**MESSAGES, **EXAMINED}
W0 = Task("worker", 0)
OF_TASK = {"task": "worker-0"}
REASON = {"reason": "no room"}
RIGHT: dict[str, dict[str, Any]] = {
    "ready": facts(["PATH"]),
    "put_failed": REASON,
    "reserved": {"ports": {"worker-0": 2222}},
    "reservation_failed": REASON,
    "dialled": {"results": {}},
    "gate_failed": REASON,
    "survivors": {"pids": [12]},
    "started": {**OF_TASK, "pid": 12},
    "start_failed": {**OF_TASK, **REASON},
    "listening": OF_TASK,
    "waits_elsewhere": {**OF_TASK, "own": 1, "ports": [2], "connected": ["10.0.0.1:80"], "dialled": []},
    "port_shared": {"port": 1, "processes": [["worker-0", 12], ["worker-0", 13]]},
    "stranger": {**OF_TASK, "address": "10.0.0.1", "number": 1},
    "resting": {**OF_TASK, "resting": True},
    "exited": {**OF_TASK, "code": 0, "signal": None, "out_of_memory": False, "log_disk_full": False},
    "evaluator_done": OF_TASK,
    "log": {**OF_TASK, "offset": 0},
    "log_ended": OF_TASK,
    "progress": OF_TASK,
    "files_listed": {"number": 1, "files": [["a\udcff", 5, 10**18]], "links": ["b"], "unreadable": [["c", "why"]]},
    "files_list_ended": {"number": 1, "clock_ns": 10**18},
    "files_piece": {"number": 1, "offset": 0},
    "files_sent": {"number": 1, "size": 5, "sha256": "ab", "mtime_ns": 10**18, "unchanged": True},
    "files_failed": {"number": 1, **REASON},
    "files_ready": {"number": 1, "free": 10**12},
    "files_taken": {"number": 1},
    "files_placed": {"number": 1},
    "project_waits": {"path": "/home/me"},
    "project_compared": {"top": "/home/me", "over": False, "free": 1, "freed": 0, "rsync": True},
    "project_prepared": {"deleted": 0},
    "project_failed": {"path": "a", "code": "ENOSPC", **REASON},
    "not_asked": REASON,
    "answered": {"in_time": True, "code": None, "signal": 15},
    "gate_tried": {"reason": ""},
    "counting": {"reason": ""},
    "measured": {"reason": "", "bytes": 5, "rate": 1.5, "round_trip": 0.1, "retransmitted": 0},
}
BEHIND = {
    "project_compared": b'{"wanted":[0],"doubtful":[[1,"ab",""]],"in_the_way":[["a","is no file"]]}',
    "project_prepared": b'{"kept":["a"]}',
    "project_settled": b'{"missing":[]}',
}
WRONG: list[tuple[str, str, Any]] = [
    ("ready", "python", 5),
    ("ready", "time", float("inf")),
    ("ready", "addresses", "10.0.0.1"),
    ("ready", "environment", {"OMP_NUM_THREADS": 4}),
    ("ready", "hostname", "\ud800"),
    ("ready", "cpus", 0),
    ("ready", "pid", True),
    ("reserved", "ports", {"worker-0": 0}),
    ("reserved", "ports", {"worker-0": 65536}),
    ("reserved", "ports", {}),
    ("reserved", "ports", {"worker-1": 2222}),
    ("dialled", "results", {"gpu-a": ""}),
    ("survivors", "pids", "abc"),
    ("survivors", "pids", [12] * (MOST_LISTED + 1)),
    ("waits_elsewhere", "connected", ["10.0.0.1:80"] * (MOST_LISTED + 1)),
    ("project_waits", "path", "x" * (LONGEST_TEXT + 1)),
    ("started", "task", "worker-1"),
    ("started", "task", ["worker-0"]),
    ("started", "pid", 0),
    ("start_failed", "reason", None),
    ("port_shared", "processes", [["worker-0"]]),
    ("port_shared", "processes", []),
    ("port_shared", "processes", [["worker-7", 12]]),
    ("waits_elsewhere", "ports", [65536]),
    ("exited", "code", "0"),
    ("exited", "code", 256),
    ("exited", "code", None),
    ("exited", "signal", 65),
    ("exited", "signal", 9),
    ("log", "offset", 1),
    ("log", "offset", -1),
    ("log", "offset", 2**63),
    ("files_listed", "files", [["a", "5", 5]]),
    ("files_listed", "files", [["a", 5, 5.5]]),
    ("files_listed", "files", [["a", 5]]),
    ("files_listed", "links", [5]),
    ("files_sent", "size", -1),
    ("files_ready", "free", 1.5),
    ("answered", "signal", 0),
    ("measured", "rate", float("nan")),
]
FIELDS = sorted({field for message in ALL.values() for field in message.fields})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["worker-0", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def agent() -> AgentMessages:
    return started()


def started() -> AgentMessages:
    """An agent with one task, which was started."""
    agent = AgentMessages("gpu-a", [W0], EXAMINED)
    agent.start("worker-0", "/log")
    return agent


def hear(agent: AgentMessages, kind: str, body: bytes | None = None, **fields: Any) -> events.Event | None:
    return agent.event({"event": kind, **fields}, BEHIND.get(kind, b"") if body is None else body)


def refusal(call: Callable[..., object], *arguments: Any, **fields: Any) -> str:
    """Why something cannot be read; empty: it can. Any other error is a fault."""
    try:
        call(*arguments, **fields)
    except UnreadableError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ALL)
def test_every_message_has_an_event_and_nothing_may_be_left_out_or_added(kind: str) -> None:
    fields = RIGHT.get(kind, {})
    event = hear(started(), kind, **fields)

    assert event is None or event.host == "gpu-a"  # type: ignore[union-attr]
    for lacking in fields.keys() - ALL[kind].spare:
        with pytest.raises(UnreadableError, match=f"`{kind}` without field '{lacking}'"):
            hear(started(), kind, **{name: fields[name] for name in fields if name != lacking})
    with pytest.raises(UnreadableError, match=f"`{kind}` with an unknown field"):
        hear(started(), kind, **fields, zebra=1)
    with pytest.raises(UnreadableError):
        hear(started(), kind, b"x" * (MOST_BODY + 1), **fields)


@pytest.mark.parametrize(("kind", "field", "value"), WRONG)
def test_a_field_that_is_not_what_it_must_be_is_named(agent: AgentMessages, kind: str, field: str, value: Any) -> None:
    with pytest.raises(UnreadableError) as raised:
        hear(agent, kind, **{**RIGHT[kind], field: value})

    assert str(raised.value).isascii()
    assert len(str(raised.value)) < 200


def test_a_task_that_was_not_started_is_not_told_of() -> None:
    with pytest.raises(UnreadableError, match="news of 'worker-0', which was not started there"):
        hear(AgentMessages("gpu-a", [W0]), "log_ended", task="worker-0")


def test_a_log_comes_without_gaps_and_no_faster_than_it_is_shown(agent: AgentMessages) -> None:
    piece = bytes(1 << 20)
    for number in range(200):
        hear(agent, "log", piece, task="worker-0", offset=number << 20)
        agent.acknowledge("worker-0", len(piece))
    ahead = (refusal(hear, agent, "log", piece, task="worker-0", offset=number << 20) for number in range(200, 300))

    assert "the log of worker-0 faster than it was asked for" in ahead


def test_another_log_begins_anew_and_the_same_goes_on(agent: AgentMessages) -> None:
    hear(agent, "log", b"first", task="worker-0", offset=0)
    agent.start("worker-0", "/log")
    hear(agent, "log", b"more", task="worker-0", offset=5)
    agent.start("worker-0", "/other")

    assert hear(agent, "log", b"new", task="worker-0", offset=0) == events.LogChunk("gpu-a", W0, 0, b"new")


def test_a_host_tells_of_itself_once(agent: AgentMessages) -> None:
    hear(agent, "ready", **RIGHT["ready"])
    with pytest.raises(UnreadableError, match="`ready` once more"):
        hear(agent, "ready", **RIGHT["ready"])


def test_a_long_answer_about_the_project_comes_in_parts(agent: AgentMessages) -> None:
    agent.list_project(1000)
    whole = json.dumps({"missing": list(range(1000))}).encode()
    assert hear(agent, "project_part", whole[:500]) is None
    answer = hear(agent, "project_settled", whole[500:])

    assert isinstance(answer, events.ProjectAnswer)
    assert answer.fields == {"missing": list(range(1000))}


def test_no_answer_about_the_project_is_much_longer_than_its_list(agent: AgentMessages) -> None:
    agent.list_project(1000)
    half = bytes(MOST_BODY // 2)

    assert [refusal(hear, agent, "project_part", half) for _ in range(3)] == [
        "",
        "",
        "an answer about the project that is far too long",
    ]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"missing":[-1]}', b'{"missing":[],"more":1}', b"\xff"])
def test_what_stands_behind_an_answer_about_the_project_is_checked_too(agent: AgentMessages, body: bytes) -> None:
    with pytest.raises(UnreadableError):
        hear(agent, "project_settled", body)


# ---- frames
def decode(chunks: Iterable[bytes]) -> list[tuple[dict[str, Any], bytes]]:
    decoder = Decoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)]


@pytest.mark.parametrize(
    "head",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"[1,2]",
        b"5",
        b"",
        b"{",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": ' + b"1" * 5000 + b"}",
        b'{"a": "\xff\xfe"}',
        '{"a": 1}'.encode("utf-16"),
        b'\xef\xbb\xbf{"a": 1}',
    ],
    ids=lambda head: repr(head[:20]),
)
def test_a_head_that_is_no_json_object_is_refused(head: bytes) -> None:
    with pytest.raises(UnreadableError) as raised:
        decode([FRAME.pack(len(head), 0) + head])

    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("lengths", [(MOST_HEAD + 1, 0), (0, MOST_BODY + 1), (2**32 - 1, 2**32 - 1)])
def test_a_frame_is_refused_by_its_lengths(lengths: tuple[int, int]) -> None:
    with pytest.raises(UnreadableError, match="a frame of"):
        decode([FRAME.pack(*lengths)])


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_any_bytes_are_frames_or_one_error(chunks: list[bytes]) -> None:
    assert refusal(decode, chunks).isascii()


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The data, cut at these places."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(places)]


@given(st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=30))), st.lists(st.integers(0, 10**4), max_size=9))
def test_where_reads_split_a_stream_changes_nothing(parts: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(FRAME.pack(len(head), len(body)) + head + body for head, body in parts)

    def outcome(chunks: Iterable[bytes]) -> tuple[list[object], str]:
        decoder, found = Decoder(), []
        try:
            for chunk in chunks:
                for frame in decoder.feed(chunk):
                    found.append(frame)  # noqa: PERF402 - what came before an error counts
        except UnreadableError as error:
            return found, str(error)
        return found, ""

    assert outcome(pieces(stream, cuts)) == outcome([stream])


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_no_lengths_make_the_decoder_keep_more_than_a_frame(head: int, body: int) -> None:
    decoder, chunk = Decoder(), bytes(1 << 18)
    tracemalloc.start()
    try:
        for data in [FRAME.pack(head, body), *[chunk] * 40]:
            for _ in decoder.feed(data):
                pass
    except UnreadableError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 4 * (MOST_HEAD + MOST_BODY)


@given(
    st.sampled_from([*ALL, "unknown"]) | VALUES,
    st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), VALUES, max_size=6),
    st.binary(max_size=50),
)
def test_any_json_is_an_event_or_one_error(kind: Any, fields: dict[str, Any], body: bytes) -> None:
    told = {"event": kind, **(RIGHT.get(kind, {}) if isinstance(kind, str) else {}), **fields}

    assert refusal(written_down, told, body).isascii()


def written_down(told: dict[str, Any], body: bytes) -> None:
    """What the launcher does with most events."""
    event = started().event(told, body)
    if event is not None and not isinstance(event, events.FileNews | events.Examined | events.ProjectAnswer):
        json.dumps(events.as_record(event), allow_nan=False)


@given(st.sampled_from(sorted(ALL)), st.data())
def test_one_field_of_any_kind_is_an_event_or_one_error(kind: str, data: st.DataObject) -> None:
    fields = RIGHT.get(kind, {})
    changed = {data.draw(st.sampled_from(sorted(fields))): data.draw(VALUES)} if fields else {}
    frames = decode([encode({"event": kind, **fields}, BEHIND.get(kind, b""))])

    assert [refusal(started().event, {**head, **changed}, body).isascii() for head, body in frames] == [True]


def test_addresses_that_a_host_tells_are_one_harmless_line_each() -> None:
    address = "10.0.0.1:80\n[launch] done in 1.0 s\x1b[2J"
    told = {**RIGHT["waits_elsewhere"], "connected": [address], "dialled": [address]}

    event = started().event({"event": "waits_elsewhere", **told}, b"")

    assert isinstance(event, events.TaskWaitsElsewhere)
    assert all(each.isprintable() for each in (*event.connected, *event.dialled))


def test_words_for_people_are_not_endless() -> None:
    event = started().event({"event": "put_failed", "reason": "x" * LONGEST_TEXT}, b"")

    assert event == events.PutFailed("gpu-a", "x" * LONGEST_REASON)


def test_words_for_people_are_one_harmless_line() -> None:
    reason = "no room\x1b[2J\r\n[launch] done in 1.0 s\u202e"

    event = started().event({"event": "put_failed", "reason": reason}, b"")

    assert event == events.PutFailed("gpu-a", r"no room\x1b[2J\r\n[launch] done in 1.0 s\u202e")
