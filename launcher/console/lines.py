"""Splits a worker's raw output into whole lines, wherever reads happened to cut it. Pure."""

from __future__ import annotations

LONGEST_LINE = 64 << 20
"""Bytes without a newline after which a line is cut, which bounds the memory that one worker can take up."""


def final_state(line: bytes) -> bytes:
    r"""What a terminal shows in the end of a line (without its newline) that was overwritten by `\r`."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


class LineSplitter:
    r"""Collects the bytes of one worker and returns them as whole lines.

    Lines are cut only at `\n`, so UTF-8 sequences stay whole. Of a line that was overwritten by `\r` (a progress bar)
    only the last state is kept. How the bytes were chunked makes no difference, except for lines beyond `longest`.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0
        self.bar = b""
        r"""The newest complete state of the progress bar on the unfinished line; empty if there is none."""

    def feed(self, data: bytes) -> bytes:
        """Add the next bytes; return all lines that they complete, each with its newline."""
        end = data.rfind(b"\n") + 1
        if not end:
            return self._keep(data)
        lines = _last_states(b"".join((*self._parts, memoryview(data)[:end])))
        self._clear()
        return lines + self._keep(data[end:])

    def flush(self, mark: bytes = b"") -> bytes:
        """Return the unfinished line with `mark` and a newline added; empty if there is none."""
        line = b"".join(self._parts)
        self._clear()
        return final_state(line) + mark + b"\n" if line else b""

    def _clear(self) -> None:
        self._parts.clear()
        self._size = 0
        self.bar = b""

    def _keep(self, data: bytes) -> bytes:
        if not data:
            return b""
        self._parts.append(data)
        self._size += len(data)
        if b"\r" in data:
            self._forget_old_states()
        if self._size < self._longest:
            return b""
        return self.flush(b" [cut: no newline in %d bytes]" % self._size)

    def _forget_old_states(self) -> None:
        line = b"".join(self._parts)
        before, _, last = line.rstrip(b"\r").rpartition(b"\r")
        # A `\r` at the end may be the first half of `\r\n`: the state before it still counts.
        ended = line.endswith(b"\r")
        whole = last if ended else final_state(before)
        # Keras goes back by `\b` before its `\r`.
        self.bar = whole.rstrip(b"\b") or self.bar
        kept = last + b"\r" if ended else last
        self._parts = [kept]
        self._size = len(kept)


def _last_states(lines: bytes) -> bytes:
    if b"\r" not in lines:
        return lines
    return b"\n".join(map(final_state, lines.split(b"\n")))


def behind(prefix: bytes, lines: bytes) -> bytes:
    """Put a prefix before each of these whole lines."""
    # This runs over megabytes at a time: as few copies as possible, and no loop over the lines.
    prefixed = memoryview(lines.replace(b"\n", b"\n" + prefix))
    return b"".join((prefix, prefixed[: -len(prefix)]))
