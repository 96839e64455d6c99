"""Numbers and lists as a person reads them, and texts of others as a terminal may show them. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

MOST_NAMES = 6
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_RATES = ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
# C1 control characters, marks that turn the direction of a line, line ends that are no newline, and what no text holds:
# half a surrogate pair, and the bytes 80 to 9f of a file's name that is no UTF-8.
OBEYED_BEYOND_ASCII = r"\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udc9f\udd00-\udfff"
"""Characters that do something to a terminal, as a part of a regular expression's set."""
_OBEYED = rf"[\x00-\x08\x0b-\x1f\x7f{OBEYED_BEYOND_ASCII}]"
_TIMES = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def harmless(text: str) -> str:
    r"""A text that may hold words of a host, of ssh or of a worker, as it may be shown on a terminal.

    What a terminal obeys is written out (`\x1b[2J`), so that no escape sequence is left; newlines and tabs stay.
    """
    return text if text.isprintable() else re.sub(_OBEYED, _written_out, text.replace("\r\n", "\n"))


def harmless_line(text: str) -> str:
    r"""The same as one line: a newline is written out, too (`\n`), and what is behind it passes for no line of ours."""
    return harmless(text.strip().replace("\n", r"\n"))


def _written_out(found: re.Match[str]) -> str:
    byte = found[0].encode("utf-8", "surrogateescape") if "\udc80" <= found[0] <= "\udcff" else b""
    return rf"\x{byte[0]:02x}" if byte else found[0].encode("unicode_escape").decode()


def listed(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """`a`, `a and b`, `a, b and c`, and not more than a line of them."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def counted(count: int, noun: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def amount(count: int) -> str:
    """Bytes, few of them in words: `62 bytes`, `3.9 MB`."""
    return counted(count, "byte") if count < 1000 else exact_size(count)


def exact_size(count: float) -> str:
    """Bytes, to a tenth: `640 B`, `3.9 MB`, `150.2 MB`."""
    for unit in _SIZES:
        if count < 1000 or unit == _SIZES[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == _SIZES[0] else f"{count:.1f} {unit}"


def size(count: float) -> str:
    """Bytes: `640 kB`."""
    return _scaled(count, _SIZES)


def rate(count: float) -> str:
    """Bytes a second: `9.4 Gbit/s`."""
    return _scaled(count * 8, _RATES)


def _scaled(value: float, units: Sequence[str]) -> str:
    for unit in units[:-1]:
        if value < 999.5:
            return f"{_digits(value)} {unit}"
        value /= 1000
    return f"{_digits(value)} {units[-1]}"


def duration(seconds: float) -> str:
    """`0.13 ms`, `2 days`."""
    length, unit = next((each for each in _TIMES if seconds > 0.99 * each[0]), _TIMES[-1])
    number = _digits(seconds / length)
    return f"{number} day" if (number, unit) == ("1", "days") else f"{number} {unit}"


def _digits(value: float) -> str:
    """Two of them, and no exponent."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")


def signal_name(number: int) -> str:
    """`SIGTERM`; a real-time signal has a number only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
