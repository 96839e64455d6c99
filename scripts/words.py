"""Texts, numbers and times as a person reads them. Python 3.9 or later."""

from __future__ import annotations

import shlex


def shown(text: str) -> str:
    """A text on one readable line."""
    return text if text.isprintable() else shlex.quote(ascii(text))


def harmless(line: str) -> str:
    """A line of ours that may repeat what a host said: nothing in it is obeyed by a terminal, or ends the line."""
    return line if line.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)


def counted(number: int, one: str, many: str) -> str:
    """`1 process`, `2 processes`."""
    return f"{number} {one if number == 1 else many}"


def amount(size: float) -> str:
    """A number of bytes for a person."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def span(seconds: float) -> str:
    """A length of time for a person."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
