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
        self._parts: list[bytes] = []
        self._length = 0
        self._needed = FRAME.size
        """Bytes without which no frame can be complete: until they are here, a part costs no copy."""

    def feed(self, data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Take the next bytes; yield each (head, body) that they complete."""
        self._parts.append(data)
        self._length += len(data)
        if self._length < self._needed:
            return
        buffer = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        start = 0
        while (end := self._frame_end(buffer, start)) <= len(buffer):
            body_at = end - FRAME.unpack_from(buffer, start)[1]
            yield json.loads(buffer[start + FRAME.size : body_at]), buffer[body_at:end]
            start = end
        self._parts, self._length, self._needed = [buffer[start:]], len(buffer) - start, end - start

    def _frame_end(self, buffer: bytes, start: int) -> int:
        """Where the frame that begins at `start` ends, as far as that is known."""
        if len(buffer) - start < FRAME.size:
            return start + FRAME.size
        head_length, body_length = FRAME.unpack_from(buffer, start)
        return start + FRAME.size + int(head_length) + int(body_length)
