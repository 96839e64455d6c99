"""What a report shows of a log: a screenful of what the program itself said. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from launcher.console.startup_noise import NoiseReader
from launcher.run.failure.frames import without_foreign_frames
from launcher.run.failure.numbers import with_short_rows, without_arrays

SCREENFUL = 25
"""How many lines of a log are shown in a report."""
WIDTH = 300
"""Characters shown of a line."""

NATIVE_LOG = re.compile(r"(?:[IWEF]\d{4} \d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] )")
"""The beginning of a line that TensorFlow's C++ code logged."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def log_lines(tail: bytes) -> list[str]:
    """The lines of a log's tail as a person sees them: no colours, progress bars as they ended."""
    text = tail.decode(errors="replace").replace("\r\n", "\n")
    lines = [_ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def last_lines(lines: Sequence[str], count: int = SCREENFUL) -> tuple[str, ...]:
    """The last lines that the program itself said: neither TensorFlow's start-up notices nor printed arrays."""
    if not lines:
        return ()
    marked = NoiseReader().marked("".join(f"{line}\n" for line in lines).encode())
    said = [line for line, (_, noise) in zip(lines, marked, strict=True) if not noise]
    while said and not said[0]:
        said.pop(0)
    return clipped(without_arrays(said)[-count:])


def of_traceback(calls: Iterable[str], said: Iterable[str]) -> tuple[str, ...]:
    """At most a screenful of a traceback, of which the first words of the exception are the last to go.

    Args:
        calls: all of it up to the line that names the exception which ended the program.
        said: from that line on.
    """
    calls, said = without_arrays(_told(calls)), without_arrays(_told(said))
    if len(calls) + len(said) > SCREENFUL:
        calls, said = without_foreign_frames(calls), without_foreign_frames(said)
    room = max(SCREENFUL - len(calls), SCREENFUL // 2)
    said = _without_middle(said, room, head=room * 2 // 3)
    room = SCREENFUL - len(said)
    return clipped([*_without_middle(calls, room, head=room // 3), *said])


def clipped(lines: Iterable[str]) -> tuple[str, ...]:
    """The lines, none longer than `WIDTH`, and with the first numbers of a long row."""
    return tuple(line if len(line) <= WIDTH else line[: WIDTH - 4] + " ..." for line in map(with_short_rows, lines))


def _told(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line and not NATIVE_LOG.match(line)]


def _without_middle(lines: list[str], most: int, head: int) -> list[str]:
    if len(lines) <= most:
        return lines
    tail = most - head - 1
    return [*lines[:head], f"  [{len(lines) - head - tail} lines left out]", *lines[len(lines) - tail :]]
