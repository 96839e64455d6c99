"""What launcher and agent say to each other: all of it comes from the table of messages, and so do these tests."""

from __future__ import annotations

import itertools
import json
import math
import string
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.spec import Task
from launcher.hosts import events
from launcher.hosts.agent_messages import LONGEST_REASON, AgentMessages
from launcher.on_host.agent.facts import facts
from launcher.on_host.agent.fields import (
    LAST,
    LONGEST_TEXT,
    PART,
    AnyString,
    Body,
    FieldKind,
    Many,
    Message,
    Nested,
    OrNothing,
    Real,
    Row,
    Table,
    Truth,
    Whole,
    Writable,
    checked,
    encode,
)
from launcher.on_host.agent.framing import FRAME, MOST_BODY, MOST_HEAD, Decoder, UnreadableError
from launcher.on_host.agent.messages import (
    COMMANDS,
    EVENTS,
    Acknowledge,
    CompareProject,
    DialPorts,
    DialResults,
    Event,
    Exited,
    LogPiece,
    LogShipped,
    NotPut,
    ProjectFile,
    ProjectSettled,
    Ready,
    Reserved,
    SharedPort,
    Start,
    Started,
    Target,
    WaitsElsewhere,
    WorkerStart,
)

ALL: dict[str, type[Message]] = {**EVENTS, **COMMANDS}
W0 = Task("worker", 0)
WAITS = WaitsElsewhere("worker-0", 1, [2], ["10.0.0.1:80"], [])
EXITED = Exited("worker-0", 0, None, False, False, b"")


# ---- values, drawn from what a field may be
def right(kind: FieldKind) -> st.SearchStrategy[Any]:  # noqa: C901 (a table)
    """Values that such a field may have."""
    match kind:
        case Whole(least=least, most=most):
            return st.integers(None if least == -math.inf else least, None if most == math.inf else most)
        case Real():
            return st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
        case Truth():
            return st.booleans()
        case Writable():
            return st.text(max_size=20) | st.just("\udcff")
        case AnyString():
            return st.text(max_size=20) | st.sampled_from(["\ud800", "\udcff"])
        case OrNothing(kind=inner):
            return st.none() | right(inner)
        case Many(kind=inner):
            return st.lists(right(inner), max_size=3)
        case Row(kinds=kinds):
            return st.tuples(*map(right, kinds))
        case Table(names=names, kind=inner):
            return st.dictionaries(right(names), right(inner), max_size=3)
        case Nested(message=message):
            return any_of(message)
        case Body(most=most):
            return st.binary(max_size=min(most, 50))
    raise AssertionError(kind)


def wrong(kind: FieldKind) -> list[Any]:
    """Values of JSON that it may not have."""
    match kind:
        case Whole(least=least, most=most):
            beyond = [number for number in (least - 1, most + 1) if abs(number) < math.inf]
            return [*beyond, "5", True, 1.5, None, [1]]
        case Real():
            return [math.nan, math.inf, -math.inf, True, "5", None]
        case Truth():
            return [0, 1, "yes", None]
        case Writable():
            return [5, None, True, ["x"], "\ud800", "x" * (LONGEST_TEXT + 1)]
        case AnyString():
            return [5, None, True, ["x"]]
        case OrNothing(kind=inner):
            return [value for value in wrong(inner) if value is not None]
        case _:
            return [5, None, "abc", True, *wrong_structures(kind)]


def wrong_structures(kind: FieldKind) -> list[Any]:
    match kind:
        case Many(kind=inner, most=most):
            too_many = [[plain(inner)] * (int(most) + 1)] if most < math.inf else []
            return [{}, *([value] for value in wrong(inner)), *too_many]
        case Row(kinds=kinds):
            before = [plain(each) for each in kinds[:-1]]
            return [{}, before, [*before, plain(kinds[-1]), 1], *([*before, value] for value in wrong(kinds[-1]))]
        case Table(kind=inner):
            return [[], *({"a": value} for value in wrong(inner))]
        case Nested(message=message):
            return [[], {}, {**vars(example(message)), "zebra": 1}]
    raise AssertionError(kind)


def any_of(message: type[Message]) -> st.SearchStrategy[Any]:
    return st.builds(message, **{name: right(kind) for name, kind in message.kinds.items()})


def example(message: type[Message]) -> Any:
    """A message of this kind that an agent of ours may send after `started`."""
    special = {"Ready": Ready(**facts(["PATH"])), "Reserved": Reserved({"worker-0": 2222}), "Exited": EXITED}
    special |= {"DialResults": DialResults({}), "WaitsElsewhere": WAITS}
    special |= {"SharedPort": SharedPort(1, [("worker-0", 12), ("worker-0", 13)])}
    rest = {name: plain(kind) for name, kind in message.kinds.items()} | (
        {"task": "worker-0"} if "task" in message.kinds else {}
    )
    return special.get(message.__name__) or message(**rest)


def plain(kind: FieldKind) -> Any:
    match kind:
        case Whole(least=least):
            return max(0, least)
        case Nested(message=message):
            return example(message)
        case Row(kinds=kinds):
            return tuple(map(plain, kinds))
        case Many(kind=inner):
            return [plain(inner)]
    simple = {
        Real: 1.5,
        Truth: True,
        Writable: "words",
        AnyString: "a\udcff",
        OrNothing: None,
        Table: {},
        Body: b"body",
    }
    return simple[type(kind)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["worker-0", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({field for message in ALL.values() for field in message.kinds})


def sent(message: Message) -> tuple[dict[str, Any], bytes]:
    """What comes over the wire of a message that fits into a frame."""
    ((head, body),) = decode([encode(message)])
    return head, body


def decode(chunks: Iterable[bytes]) -> list[tuple[dict[str, Any], bytes]]:
    decoder = Decoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)]


def refusal(call: Callable[..., object], *arguments: Any) -> str:
    """Why something cannot be read; empty: it can. Any other error is a fault."""
    try:
        call(*arguments)
    except UnreadableError as error:
        return str(error)
    return ""


# ---- every message of the table
@given(st.sampled_from(list(ALL.values())), st.data())
def test_every_message_arrives_as_it_was_sent(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(any_of(kind))

    assert checked(ALL, *sent(message)) == message


@pytest.mark.parametrize("name", ALL)
def test_every_field_is_there_and_no_other(name: str) -> None:
    kind = ALL[name]
    head, body = sent(example(kind))
    for lacking in kind.kinds.keys() - {kind.body}:
        with pytest.raises(UnreadableError, match=f"`{name}` without field '{lacking}'"):
            checked(ALL, {field: value for field, value in head.items() if field != lacking}, body)
    with pytest.raises(UnreadableError, match=f"`{name}` with an unknown field 'zebra'"):
        checked(ALL, {**head, "zebra": 1}, body)


@pytest.mark.parametrize("name", ALL)
def test_a_field_that_is_not_what_it_must_be_is_named(name: str) -> None:
    head, body = sent(example(ALL[name]))
    for field, kind in ALL[name].kinds.items():
        for value in wrong(kind) if field != ALL[name].body else []:
            why = refusal(checked, ALL, {**head, field: value}, body)

            assert why.startswith(f"`{name}` whose field '{field}' is "), value
            assert why.isascii()
            assert len(why) < 200


@pytest.mark.parametrize("name", EVENTS)
def test_no_more_stands_behind_an_event_than_it_may_have(name: str) -> None:
    kind = EVENTS[name].kinds.get(EVENTS[name].body)
    most = kind.most if isinstance(kind, Body) else 0
    head, _ = sent(example(EVENTS[name]))

    assert most <= 1 << 20
    with pytest.raises(UnreadableError, match=f"`{name}` with {most + 1} bytes behind it, where {most} are the most"):
        checked(EVENTS, head, bytes(most + 1))


def test_no_two_messages_of_a_side_have_one_name_on_the_wire() -> None:
    assert not EVENTS.keys() & COMMANDS.keys()
    assert all(set(name) <= set(string.ascii_letters) for name in ALL)
    assert not ALL.keys() & {PART["message"], LAST["message"]}


@given(
    st.sampled_from([*ALL, "unknown"]) | VALUES,
    st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), VALUES, max_size=6),
    st.binary(max_size=50),
)
def test_any_json_is_an_event_or_one_error(name: Any, fields: dict[str, Any], body: bytes) -> None:
    right_ones = sent(example(ALL[name]))[0] if isinstance(name, str) and name in ALL else {}

    assert refusal(checked, ALL, {**right_ones, **fields, "message": name}, body).isascii()


# ---- what one agent says in the course of a connection
@pytest.fixture
def agent() -> AgentMessages:
    return started()


def started(log: str = "/log") -> AgentMessages:
    """An agent with one task, which was started."""
    agent = AgentMessages("gpu-a", [W0], EVENTS)
    agent.note(start(log))
    return agent


def start(log: str) -> Start:
    return Start([WorkerStart("worker-0", ["true"], {}, "/", 2222, log, "/progress")], False, "all")


def hear(agent: AgentMessages, message: Message) -> events.Event | None:
    return agent.event(*sent(message))


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_is_told_with_its_host(name: str) -> None:
    event = hear(started(), example(EVENTS[name]))

    assert (event is None) == (name == "Alive")
    assert event is None or event.host == "gpu-a"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "impossible",
    [
        Reserved({}),
        Reserved({"worker-1": 2222}),
        DialResults({"gpu-b": ""}),
        Started("worker-1", 12),
        SharedPort(1, []),
        SharedPort(1, [("worker-0", 12)]),
        SharedPort(1, [("worker-0", 12), ("worker-7", 13)]),
        EXITED.replaced({"code": None}),
        EXITED.replaced({"signal": 9}),
        LogPiece("worker-0", 1, b""),
    ],
    ids=repr,
)
def test_what_cannot_be_at_this_moment_is_refused(agent: AgentMessages, impossible: Event) -> None:
    why = refusal(hear, agent, impossible)

    assert why
    assert why.isascii()
    assert len(why) < 200


def test_a_task_that_was_not_started_is_not_told_of() -> None:
    with pytest.raises(UnreadableError, match="news of 'worker-0', which was not started there"):
        hear(AgentMessages("gpu-a", [W0]), LogShipped("worker-0"))


def test_a_command_is_no_event(agent: AgentMessages) -> None:
    with pytest.raises(UnreadableError, match="a message 'Start', which is unknown"):
        hear(agent, start("/log"))


def test_only_the_targets_are_told_of(agent: AgentMessages) -> None:
    agent.note(DialPorts([Target("gpu-b", "10.0.0.2", 2222, "")], 1.0, 1.0))

    assert hear(agent, DialResults({"gpu-b": "late"})) == events.Dialled("gpu-a", {"gpu-b": "late"})


def test_a_log_comes_without_gaps_and_no_faster_than_it_is_shown(agent: AgentMessages) -> None:
    piece = bytes(1 << 20)
    for number in range(200):
        hear(agent, LogPiece("worker-0", number << 20, piece))
        agent.note(Acknowledge("worker-0", len(piece)))
    ahead = (refusal(hear, agent, LogPiece("worker-0", number << 20, piece)) for number in range(200, 300))

    assert "the log of worker-0 faster than it was asked for" in ahead


def test_another_log_begins_anew_and_the_same_goes_on(agent: AgentMessages) -> None:
    hear(agent, LogPiece("worker-0", 0, b"first"))
    agent.note(start("/log"))
    hear(agent, LogPiece("worker-0", 5, b"more"))
    agent.note(start("/other"))

    assert hear(agent, LogPiece("worker-0", 0, b"new")) == events.LogChunk("gpu-a", W0, 0, b"new")


def test_a_host_tells_of_itself_once(agent: AgentMessages) -> None:
    hear(agent, example(Ready))
    with pytest.raises(UnreadableError, match="`Ready` once more"):
        hear(agent, example(Ready))


def test_a_list_that_is_too_long_for_a_frame_comes_in_several(agent: AgentMessages) -> None:
    long = ProjectSettled(list(range(10**6)))
    agent.note(CompareProject("/there", [ProjectFile(f"file {number}", 1, 1, 0o644, None) for number in range(10**5)]))
    frames = decode([encode(long)])

    assert len(frames) > 2
    assert [agent.event(*frame) for frame in frames] == [None] * (len(frames) - 1) + [events.Answer("gpu-a", long)]


def test_no_list_is_much_longer_than_what_it_answers(agent: AgentMessages) -> None:
    agent.note(CompareProject("/there", [ProjectFile("file", 1, 1, 0o644, None)]))
    half = bytes(MOST_BODY // 2)

    assert [refusal(agent.event, dict(PART), half) for _ in range(3)] == ["", "", "a message that is far too long"]


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"message":"ProjectSettled","missing":[-1]}', b"\xff"])
def test_what_comes_in_several_frames_is_checked_too(agent: AgentMessages, text: bytes) -> None:
    agent.note(CompareProject("/there", [ProjectFile("file", 1, 1, 0o644, None)]))
    agent.event(dict(PART), text)
    with pytest.raises(UnreadableError):
        agent.event(dict(LAST), b"")


@given(st.sampled_from(sorted(EVENTS)), st.data())
def test_any_event_is_written_down_or_refused(name: str, data: st.DataObject) -> None:
    assert refusal(written_down, data.draw(any_of(EVENTS[name]))).isascii()


def written_down(message: Event) -> None:
    """What the launcher does with most events."""
    event = hear(started(), message)
    if event is not None and not isinstance(event, events.Answer):
        json.dumps(events.as_record(event), allow_nan=False)


def test_addresses_that_a_host_tells_are_one_harmless_line_each(agent: AgentMessages) -> None:
    address = "10.0.0.1:80\n[launch] done in 1.0 s\x1b[2J"

    event = hear(agent, WAITS.replaced({"connected": [address], "dialled": [address]}))

    assert isinstance(event, events.TaskWaitsElsewhere)
    assert all(each.isprintable() for each in (*event.connected, *event.dialled))


def test_words_for_people_are_not_endless(agent: AgentMessages) -> None:
    assert hear(agent, NotPut("x" * LONGEST_TEXT)) == events.PutFailed("gpu-a", "x" * LONGEST_REASON)


def test_words_for_people_are_one_harmless_line(agent: AgentMessages) -> None:
    reason = "no room\x1b[2J\r\n[launch] done in 1.0 s\u202e"

    assert hear(agent, NotPut(reason)) == events.PutFailed("gpu-a", r"no room\x1b[2J\r\n[launch] done in 1.0 s\u202e")


# ---- frames
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
