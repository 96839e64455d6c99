"""How agent and launcher talk: frames over a stream of bytes. Both ends import this."""

from __future__ import annotations

import json
import struct

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator
    from typing import Any

GREETING = b"\n\0tf-launch agent 1\n"
"""Comes before the first frame; whatever a login shell printed stands in front of it."""
FRAME = struct.Struct(">II")
"""Length of the JSON head, length of the body."""


def encode(head: dict[str, Any], body: bytes = b"") -> bytes:
    """One frame: a JSON object and raw bytes after it."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return FRAME.pack(len(text), len(body)) + text + body


class Decoder:
    """Cuts a stream of bytes into frames, wherever reads happened to split them."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Take the next bytes; yield each (head, body) that they complete."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= FRAME.size:
            head_length, body_length = FRAME.unpack_from(self._buffer, start)
            body_at = start + FRAME.size + head_length
            if len(self._buffer) < body_at + body_length:
                break
            with memoryview(self._buffer) as view:  # a slice of the bytearray itself would copy the body twice
                head = json.loads(bytes(view[start + FRAME.size : body_at]))
                body = bytes(view[body_at : body_at + body_length])
            yield head, body
            start = body_at + body_length
        del self._buffer[:start]
