"""Hides on the console what a worker prints only because the user interrupted the run; the log files keep it. Pure.

Python prints a traceback of the KeyboardInterrupt, and TensorFlow complains about peers that have ended. Any other
traceback is shown: a checkpoint that could not be saved matters.
"""

from __future__ import annotations

from collections.abc import Callable

from launcher.console.collateral import is_collateral
from launcher.lazy_pattern import lazy_pattern

_HEADER = lazy_pattern(rb"[ |+]*Traceback \(most recent call last\):\s*$")
_BEFORE_HEADER = lazy_pattern(rb"Process [\w-]+:\s*$|Exception ignored in|Exception in thread ")
_NATIVE_COMPLAINT = lazy_pattern(
    rb"[WEF]\d{4} \d\d:\d\d:[\d.]+ |\d{4}-\d\d-\d\d \d\d:\d\d:[\d.]+: [WEF] "  # of TensorFlow's C++ code
)
_MAY_MATTER = lazy_pattern(rb"(?:\A|[\r\n])(?:[ |+]*Traceback|Process |Exception |[WEF]\d{4} |\d{4}-\d\d-)")
"""How a line that one of the three patterns matches begins. One search over a block is much faster than three matches
for each of its lines."""
_INTERRUPT = lazy_pattern(rb"KeyboardInterrupt|RuntimeError: pybind11::.* REPLACED BY KeyboardInterrupt")
"""The second form appears where TensorFlow's C++ code was about to raise an error of its own."""
_CONNECTOR = lazy_pattern(rb"(?:During handling of|The above exception was)[\w ,]*exception")
_TENSORFLOW_ERROR = lazy_pattern(rb"tensorflow\.python\.framework\.errors_impl\.\w+")
_MORE_OF_A_MESSAGE = lazy_pattern(
    rb"\s|$|Detected at node|Collective ops is aborted|Additional GRPC error|The error could be|Error reported from|"
    rb"At:$|:?\{|:UNKNOWN|\d+ root error|Hint: |RPC: "
)

MOST_HELD = 1 << 20
"""Bytes of a traceback that are held until its end is known; a longer one is shown."""

_State = Callable[[bytes], list[bytes]]
"""A state of the reader: a function from the next line to the lines that are shown now."""


class InterruptionReader:
    """Filters one worker's lines. A traceback is held until its last line tells whether the interrupt caused it."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._state: _State = self._outside

    def feed(self, block: bytes) -> bytes:
        """Add the next whole lines; return those that are shown now, held ones included."""
        if self._state == self._outside and not _MAY_MATTER().search(block):
            return block
        return b"".join(shown for line in block.splitlines(keepends=True) for shown in self._state(line))

    def flush(self) -> bytes:
        """The log has ended: return what is shown of the lines still held."""
        return b"".join(self._judged())

    def _outside(self, line: bytes) -> list[bytes]:
        if _HEADER().match(line):
            return self._hold(line, self._in_frames)
        if _BEFORE_HEADER().match(line):
            return self._hold(line, self._before_header)
        if _NATIVE_COMPLAINT().match(line):
            return self._hide()
        return [line]

    def _before_header(self, line: bytes) -> list[bytes]:
        if _HEADER().match(line):
            return self._hold(line, self._in_frames)
        return [*self._release(), *self._outside(line)]

    def _in_frames(self, line: bytes) -> list[bytes]:
        if line[:1].isspace() or _HEADER().match(line):
            return self._hold(line, self._in_frames)
        if _INTERRUPT().match(line):
            return self._hide()
        if _TENSORFLOW_ERROR().match(line):
            return self._hold(line, self._in_message)
        return [*self._release(), line]

    def _in_message(self, line: bytes) -> list[bytes]:
        """TensorFlow may take many lines to say that a peer is gone."""
        if _MORE_OF_A_MESSAGE().match(line):
            return self._hold(line, self._in_message)
        return [*self._judged(), *self._state(line)]

    def _after_hidden(self, line: bytes) -> list[bytes]:
        """Hide what still belongs to a hidden traceback, or links it to the next one."""
        if _MORE_OF_A_MESSAGE().match(line) or _CONNECTOR().match(line) or _INTERRUPT().match(line):
            return []
        self._state = self._outside
        return self._outside(line)

    def _judged(self) -> list[bytes]:
        return self._hide() if is_collateral(b"".join(self._held).decode(errors="replace")) else self._release()

    def _hold(self, line: bytes, state: _State) -> list[bytes]:
        self._held.append(line)
        self._size += len(line)
        self._state = state
        return self._release() if self._size > MOST_HELD else []

    def _hide(self) -> list[bytes]:
        self._held, self._size = [], 0
        self._state = self._after_hidden
        return []

    def _release(self) -> list[bytes]:
        held, self._held, self._size = self._held, [], 0
        self._state = self._outside
        return held
