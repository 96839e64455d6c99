"""The fields of messages, and how a received message is checked.

A message is a class whose annotations are its fields (`launcher.on_host.agent.messages`). For type checkers an
annotation is a type; at run time it is the object that checks a value from the wire.
"""

from __future__ import annotations

import json
import math
import operator

from launcher.on_host.agent.framing import (
    MOST_BODY,
    MOST_FROM_LAUNCHER,
    MOST_HEAD,
    MOST_LISTED,
    UnreadableError,
    frame,
    shown,
)

TYPE_CHECKING = False  # of `typing`, which costs start-up time
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, ClassVar, TypeVar, dataclass_transform

    AnyTuple = tuple[Any, ...]
else:
    AnyTuple = tuple

    def dataclass_transform(**_options):  # noqa: ANN003, ANN201 (of `typing`, and newer than Python 3.9)
        return lambda decorated: decorated


LONGEST_TEXT = 1 << 17
"""Characters; Linux allows no longer environment variable."""
LONGEST_PIECE = 1 << 20
"""Bytes of a log or a file in one message."""
LONGEST_LINE = 1 << 16
"""Bytes of a progress report."""
LONGEST_TAIL = 1 << 16
"""Bytes of a log's end, or of a program's last words."""


class Unfit(Exception):  # noqa: N818 (never leaves this module)
    """A value is not allowed in its field."""


class FieldKind:
    """What a field may hold."""

    def check(self, value: Any) -> Any:
        """The value as the message gets it.

        Raises:
            Unfit: it is not allowed.
        """
        raise NotImplementedError

    def __or__(self, _none: None) -> FieldKind:
        return OrNothing(self)


class OrNothing(FieldKind):
    """A value, or null."""

    def __init__(self, kind: FieldKind) -> None:
        self.kind = kind

    def check(self, value: Any) -> Any:
        return None if value is None else self.kind.check(value)


class Whole(FieldKind):
    """A whole number; not `True`."""

    def __init__(self, least: float = -math.inf, most: float = math.inf) -> None:
        self.least, self.most = least, most

    def check(self, value: Any) -> int:
        if type(value) is not int or not self.least <= value <= self.most:
            raise Unfit
        return value


class Real(FieldKind):
    """A finite number."""

    def check(self, value: Any) -> float:
        if type(value) not in (int, float) or not math.isfinite(value):
            raise Unfit
        return value  # type: ignore[no-any-return]


class Truth(FieldKind):
    def check(self, value: Any) -> bool:
        if type(value) is not bool:
            raise Unfit
        return value


class AnyString(FieldKind):
    """Any string, also names of files that are not valid on other hosts."""

    def check(self, value: Any) -> str:
        if type(value) is not str:
            raise Unfit
        return value


class Writable(AnyString):
    """A string of limited length that can be encoded; bytes that are not UTF-8 are surrogates."""

    def check(self, value: Any) -> str:
        text = super().check(value)
        if len(text) > LONGEST_TEXT:
            raise Unfit
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise Unfit from None
        return text


class Body(FieldKind):
    """Raw bytes, which follow the head. A message has at most one such field."""

    def __init__(self, most: int) -> None:
        self.most = most


class Many(FieldKind):
    """A list."""

    def __init__(self, kind: FieldKind, most: float = MOST_LISTED) -> None:
        self.kind, self.most = kind, most

    def check(self, value: Any) -> list[Any]:
        if type(value) is not list or len(value) > self.most:
            raise Unfit
        check = self.kind.check
        return [check(each) for each in value]


class Row(FieldKind):
    """A list with one value of each kind."""

    def __init__(self, kinds: tuple[FieldKind, ...], made: Callable[[list[Any]], tuple[Any, ...]] = tuple) -> None:
        self.kinds, self.made = kinds, made

    def check(self, value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(self.kinds):
            raise Unfit
        return self.made([kind.check(each) for kind, each in zip(self.kinds, value)])  # noqa: B905 (Python 3.9)


class Table(FieldKind):
    """A table from names to values."""

    def __init__(self, names: FieldKind, kind: FieldKind) -> None:
        self.names, self.kind = names, kind

    def check(self, value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise Unfit
        return {self.names.check(name): self.kind.check(each) for name, each in value.items()}


class Nested(FieldKind):
    """A message within another one."""

    def __init__(self, message: type[Message]) -> None:
        self.message = message

    def check(self, value: Any) -> Message:
        kinds = self.message.kinds
        if type(value) is not dict or value.keys() != kinds.keys():
            raise Unfit
        return self.message(**{name: kind.check(value[name]) for name, kind in kinds.items()})


if TYPE_CHECKING:
    AnyText = str
    Words = str
    AnyWhole = int
    Count = int
    Pid = int
    Port = int
    PortOrNone = int
    ExitCode = int
    SignalNumber = int
    SignalOrNone = int
    Mode = int
    TimeNs = int
    Piece = bytes
    Line = bytes
    Tail = bytes
    Bulk = bytes
    Long = list
else:
    AnyText = AnyString()
    Words = Writable()
    """Text for people: it is only shown, and the launcher makes it one line without control characters."""
    Count = Whole(0, 2**63 - 1)
    Pid = Whole(1, 2**31 - 1)
    Port = Whole(1, 65535)
    PortOrNone = Whole(0, 65535)
    ExitCode = Whole(0, 255)
    SignalNumber = Whole(1, 64)
    SignalOrNone = Whole(0, 64)
    Mode = Whole(0, 0o7777)
    AnyWhole = TimeNs = Whole()
    """Unbounded: an odd size or time of a file must not cost the whole connection. Whoever uses it checks the range."""
    Piece, Line, Tail, Bulk = Body(LONGEST_PIECE), Body(LONGEST_LINE), Body(LONGEST_TAIL), Body(MOST_FROM_LAUNCHER)

    class Long:
        """A list of any length; the size of a frame limits it."""

        def __class_getitem__(cls, annotation: object) -> FieldKind:
            return Many(kind_of(annotation), math.inf)


def kind_of(annotation: Any) -> FieldKind:
    """What checks a field with this annotation."""
    if isinstance(annotation, FieldKind):
        return annotation
    origin = getattr(annotation, "__origin__", None)
    kinds = [kind_of(each) for each in annotation.__args__] if origin else []
    if origin is list:
        return Many(kinds[0])
    if origin is tuple:
        return Row(tuple(kinds))
    if origin is dict:
        return Table(*kinds)
    if issubclass(annotation, NamedRow):
        return Row(annotation.kinds, annotation.made)
    return PLAIN[annotation] if annotation in PLAIN else Nested(annotation)


PLAIN = {bool: Truth(), float: Real(), str: Writable()}


@dataclass_transform(frozen_default=True)
class NamedRow(AnyTuple):
    """A tuple whose values have names; subclasses are written like messages. On the wire it is a list.

    For what a message has thousands of: a message within it would take twice as long to check, and more bytes.
    """

    if TYPE_CHECKING:
        kinds: ClassVar[tuple[FieldKind, ...]]
        """What each value may be."""

    def __init_subclass__(cls) -> None:
        cls.kinds = tuple(kind_of(each) for each in cls.__annotations__.values())
        for place, name in enumerate(cls.__annotations__):
            setattr(cls, name, property(operator.itemgetter(place)))

    @classmethod
    def made(cls, values: list[Any]) -> tuple[Any, ...]:
        """One with these values."""
        return tuple.__new__(cls, values)

    if not TYPE_CHECKING:

        def __new__(cls, *values: Any) -> NamedRow:
            return cls.made(values)


if TYPE_CHECKING:
    Any_Message = TypeVar("Any_Message", bound="Message")


@dataclass_transform(frozen_default=True)
class Message:
    """A frozen value. Subclasses are written like dataclasses."""

    if TYPE_CHECKING:  # only there: a class without fields must not inherit annotations, as it does in Python 3.9
        __match_args__: ClassVar[tuple[str, ...]]
        kinds: ClassVar[dict[str, FieldKind]]
        """What each field may hold."""
        body: ClassVar[str]
        """The field that follows the head, if there is one."""
        words: ClassVar[dict[str, FieldKind]]
        """The fields with text for people."""

    def __init_subclass__(cls) -> None:
        cls.kinds = {name: kind_of(each) for name, each in getattr(cls, "__annotations__", {}).items()}
        cls.__match_args__ = tuple(cls.kinds)  # type: ignore[misc]
        cls.words = {name: kind for name, kind in cls.kinds.items() if Words in (kind, getattr(kind, "kind", None))}
        cls.body = next((name for name, kind in cls.kinds.items() if isinstance(kind, Body)), "")

    if not TYPE_CHECKING:

        def __init__(self, *values: Any, **named: Any) -> None:
            named.update(zip(self.__match_args__, values))  # noqa: B905 (Python 3.9)
            if named.keys() != self.kinds.keys():
                raise TypeError(f"{type(self).__name__} has the fields {', '.join(self.kinds)}")
            vars(self).update(named)

    def replaced(self: Any_Message, values: Mapping[str, Any]) -> Any_Message:
        """A copy with other values in these fields."""
        return type(self)(**{**vars(self), **values}) if values else self

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


# ---- over the wire
PART, LAST = {"message": "Part"}, {"message": "Last"}
"""The heads of the frames of a message whose own head is too long for one frame."""


def encode(message: Message, most_head: int = MOST_HEAD) -> bytes:
    """A message as a frame, or as several if its head is longer than `most_head`."""
    fields = dict(vars(message))
    body = fields.pop(message.body, b"")
    head = as_json({"message": type(message).__name__, **fields})
    if len(head) <= most_head or body:
        return frame(head, body)
    parts = [frame(as_json(PART), head[at : at + MOST_BODY]) for at in range(0, len(head), MOST_BODY)]
    return b"".join([*parts, frame(as_json(LAST))])


def as_json(head: dict[str, Any]) -> bytes:
    return json.dumps(head, separators=(",", ":"), default=vars).encode()


def checked(known: Mapping[str, type[Any_Message]], head: dict[str, Any], body: bytes) -> Any_Message:
    """The message in a frame.

    Raises:
        UnreadableError: it is unknown, or a field is missing, unknown, or holds what it may not.
    """
    name = head.pop("message", None)
    message = known.get(name) if isinstance(name, str) else None
    if message is None:
        raise UnreadableError(f"a message {shown(name)}, which is unknown")
    wanted = message.kinds.keys() - {message.body}
    if wrong := sorted(head.keys() ^ wanted):
        raise UnreadableError(
            f"`{name}` {'without' if wrong[0] in wanted else 'with an unknown'} field {shown(wrong[0])}"
        )
    for field in wanted:
        try:
            head[field] = message.kinds[field].check(head[field])
        except Unfit:
            raise UnreadableError(f"`{name}` whose field '{field}' is {shown(head[field])}") from None
    kind = message.kinds.get(message.body)
    most = kind.most if isinstance(kind, Body) else 0
    if len(body) > most:
        raise UnreadableError(f"`{name}` with {len(body)} bytes behind it, where {most} are the most")
    return message(**head, **({message.body: body} if message.body else {}))


def by_name(kind: type[Any_Message], names: Mapping[str, object]) -> Mapping[str, type[Any_Message]]:
    """All messages of a kind (`Command`, `Event`) among the names of a module."""
    return {
        name: each for name, each in names.items() if isinstance(each, type) and issubclass(each, kind) and each != kind
    }
