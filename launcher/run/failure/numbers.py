"""Arrays that a program has printed, cut: a thousand numbers hide what it said. Pure.

How many numbers are left out is said only where all of them are known: neither the agent (`Log.tail`) nor NumPy has put
"..." in place of some.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

FEWEST_LINES = 4
"""Lines of numbers in a row that are not all shown."""
LONG_LINE = 120
"""Characters of a line in which a row of numbers is not all shown."""
SHOWN = 3
"""Numbers that are left of a row."""

LEFT_OUT = "..."
_NUMBER = r"(?:[+-]?(?:\d[\d.eE+j-]*+|nan|inf)|True|False|None|\.\.\.)"
_BETWEEN = r"[\s,()\[\]]++"
_NUMBERS = re.compile(r"(?:nan|inf|True|False|None|[\s\d.,eEj+()\[\]{}-])*+")
_ROW = re.compile(
    rf"(?<![\w.+-])(?P<first>(?:{_NUMBER}{_BETWEEN}){{{SHOWN}}})(?P<rest>(?:{_NUMBER}{_BETWEEN}){{10,}}+)"
)
_BEGINS_WITH_NUMBER = re.compile(rf"(?:array)?[\s(\[]*+{_NUMBER}(?:[\s,)\]]|$)")


def without_arrays(lines: Sequence[str]) -> list[str]:
    """Return the lines with only the first line of numbers of each array."""
    kept: list[str] = []
    array: list[str] = []
    for line in [*lines, "end"]:
        if _NUMBERS.fullmatch(line):
            array.append(line)
            continue
        if _is_array(array, before=kept[-1] if kept else "", after=line):
            array = [array[0], f"  [{_counted(array[1:])}lines of numbers left out]"]
        kept += [*array, line]
        array = []
    return kept[:-1]


def _counted(lines: Sequence[str]) -> str:
    return "" if any(LEFT_OUT in line for line in lines) else f"{len(lines)} "


def _is_array(lines: Sequence[str], before: str, after: str) -> bool:
    """Whether lines of numbers are an array: one has brackets, or stands in the middle of some. A table has none."""
    inside = any("[" in line or "]" in line for line in lines)
    opened = before.count("[") > before.count("]")
    closed = after.count("]") > after.count("[")
    return len(lines) >= FEWEST_LINES and (inside or opened or closed)


def with_short_rows(line: str) -> str:
    """A long line with the first numbers of each row: `[0.1, 0.2, 0.3, ... (997 more)]`."""
    return line if len(line) <= LONG_LINE else _ROW.sub(_short_row, line)


def _short_row(row: re.Match[str]) -> str:
    rest = row["rest"]
    end = rest[len(rest.rstrip(" ,()[]\t\n")) :]
    more = "" if LEFT_OUT in rest else f" ({len(re.findall(_NUMBER, rest))} more)"
    return f"{row['first']}{LEFT_OUT}{more}{end}"


def with_whole_array(message: Sequence[str]) -> str:
    """The first line of a message, and of an array that begins in it all of its numbers that are known."""
    rest = list(_rest_of_array(message))
    said = " ".join([message[0], *rest])
    goes_on = rest and said.count("[") > said.count("]")
    return f"{said} {LEFT_OUT} " if goes_on else said


def _rest_of_array(message: Sequence[str]) -> Iterator[str]:
    if message[0].endswith(("(", "=")) or message[0].count("[") > message[0].count("]"):
        rest = map(str.strip, filter(None, message[1:]))
        yield from itertools.takewhile(_BEGINS_WITH_NUMBER.match, rest)
