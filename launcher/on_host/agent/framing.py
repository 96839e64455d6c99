"""How agent and launcher talk: frames over a stream of bytes. Both ends import this."""

from __future__ import annotations

import json
import struct

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator
    from typing import Any, NoReturn

GREETING = b"\n\0tf-launch agent 1\n"
"""Precedes the first frame; whatever a login shell prints comes before it."""
FRAME = struct.Struct(">II")
"""Length of the JSON head, length of the body."""
MOST_HEAD, MOST_BODY = 1 << 21, 1 << 22
"""Bytes that an agent may send in one frame. Longer messages, such as lists of files, come in several."""
MOST_FROM_LAUNCHER = 1 << 28
"""Bytes of a head, and of a body, that the launcher may send: its list of a project's files is one body."""
MOST_LISTED = 1 << 12
"""Entries of a list that an agent may send, except for lists of files."""
SHOWN = 60
"""Characters shown of a value that is refused."""


class UnreadableError(ValueError):
    """The other end sent no valid frame or message. The text says what, in plain ASCII."""


def frame(head: bytes, body: bytes = b"") -> bytes:
    """One frame: a head, which is a JSON object, then raw bytes."""
    return FRAME.pack(len(head), len(body)) + head + body


class Decoder:
    """Cuts a stream of bytes into frames, wherever reads happened to split them."""

    def __init__(self, most_head: int = MOST_HEAD, most_body: int = MOST_BODY) -> None:
        """Longer heads and bodies are refused as soon as their lengths have come."""
        self._most_head, self._most_body = most_head, most_body
        self._parts: list[bytes] = []
        self._length = 0
        self._needed = FRAME.size
        """Bytes needed to complete the next frame: before that, parts are collected without copying them."""

    def feed(self, data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Add the next bytes; yield each (head, body) that they complete.

        Raises:
            UnreadableError: these are no frames. The stream cannot be used after that.
        """
        self._parts.append(data)
        self._length += len(data)
        if self._length < self._needed:
            return
        buffer = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        start = 0
        while (end := self._frame_end(buffer, start)) <= len(buffer):
            body_at = end - FRAME.unpack_from(buffer, start)[1]
            yield decoded(buffer[start + FRAME.size : body_at]), buffer[body_at:end]
            start = end
        self._parts, self._length, self._needed = [buffer[start:]], len(buffer) - start, end - start

    def _frame_end(self, buffer: bytes, start: int) -> int:
        """Where the frame at `start` ends, or at least its lengths."""
        if len(buffer) - start < FRAME.size:
            return start + FRAME.size
        head, body = FRAME.unpack_from(buffer, start)
        if head > self._most_head or body > self._most_body:
            most = f"{self._most_head} and {self._most_body}"
            raise UnreadableError(f"a frame of {head} and {body} bytes, where {most} are the most")
        return start + FRAME.size + int(head) + int(body)


def decoded(head: bytes) -> dict[str, Any]:
    """The JSON object in these bytes.

    Raises:
        UnreadableError: they hold none.
    """
    try:
        value = JSON.decode(str(head, "utf-8"))
    except (ValueError, RecursionError):
        raise UnreadableError(f"{shown(head)}, which is no JSON") from None
    if not isinstance(value, dict):
        raise UnreadableError(f"{shown(head)}, which is no JSON object")
    return value


def shown(value: object) -> str:
    """A value for a message: plain ASCII, at most `SHOWN` characters."""
    if isinstance(value, (str, bytes)):
        value = value[: SHOWN + 1]
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # a number with thousands of digits
        return "something very long"
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


JSON = json.JSONDecoder(parse_constant=_no_number)
