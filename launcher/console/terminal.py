"""What a terminal or file can show: colours, and text without harmful control sequences. Pure but for `Look.of`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from launcher.wording import OBEYED_BEYOND_ASCII

RESET = b"\x1b[0m"
BOLD = b"\x1b[1m"
DIM = b"\x1b[2m"
RED = b"\x1b[1;31m"
WORKER_COLOURS = tuple(b"\x1b[%dm" % code for code in (36, 33, 32, 35, 34, 96, 93, 92, 95, 94))
"""One for each worker, then from the first again. Red is reserved for errors."""

_SGR = rb"\[[0-9;:]*m"
# Not compiled here: `re` compiles and caches them when a worker first writes, and by then the start is over.
_COLOURS = rb"\x1b" + _SGR
_SEQUENCE = (
    rb"(?:\[[0-?]*[ -/]*[@-~]"  # CSI: cursor, clear, modes
    rb"|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: title, clipboard, links
    rb"|[ -/]*[0-~]?)"
)
_ALL_SEQUENCES = rb"\x1b" + _SEQUENCE
_SEQUENCES_BUT_COLOURS = rb"\x1b(?!" + _SGR + rb")" + _SEQUENCE
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\x1b")
_BEYOND_ASCII = f"[{OBEYED_BEYOND_ASCII}]"
_COLOURED_LINE = rb"\x1b[^\n]*"


class Look(NamedTuple):
    """What a terminal or file can show."""

    terminal: bool = False
    """It would obey control sequences, so only harmless ones pass."""
    colour: bool = False
    """SGR colours are wanted."""

    @classmethod
    def of(cls, fd: int, environ: Mapping[str, str], no_color: bool = False) -> Look:
        """The look of an open file: `no_color` decides, then `NO_COLOR`, `FORCE_COLOR`, then whether it is a tty."""
        terminal = os.isatty(fd)
        if no_color or environ.get("NO_COLOR"):
            return cls(terminal, colour=False)
        forced = environ.get("FORCE_COLOR", "")
        if forced:
            return cls(terminal, colour=forced != "0")
        return cls(terminal, colour=terminal and environ.get("TERM", "") not in ("", "dumb"))

    def shown(self, lines: bytes) -> bytes:
        """Whole lines, safe to write: no control sequence reaches a terminal, and each colour ends with its line."""
        if self.terminal:
            lines = _harmless(lines, _SEQUENCES_BUT_COLOURS if self.colour else _ALL_SEQUENCES)
        if b"\x1b" not in lines:
            return lines
        return re.sub(_COLOURED_LINE, rb"\g<0>" + RESET, lines) if self.colour else re.sub(_COLOURS, b"", lines)

    def painted(self, text: bytes, colour: bytes) -> bytes:
        """The text in a colour, where colours are wanted."""
        return colour + text + RESET if self.colour else text


def _harmless(lines: bytes, sequences: bytes) -> bytes:
    if b"\x1b" in lines:
        lines = re.sub(sequences, b"", lines)
    lines = lines.translate(None, _CONTROLS)
    if lines.isascii():
        return lines
    # Replaced, not removed: the bytes around a removed one could join and form another.
    text = lines.decode("utf-8", "surrogateescape")
    return re.sub(_BEYOND_ASCII, "?", text).encode("utf-8", "surrogateescape")
