"""Numbers and lists in messages, and what others say."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.wording import amount, counted, duration, exact_size, harmless, harmless_line, listed, rate, size

WORDS = {
    "one name": (listed(["a"]), "a"),
    "names": (listed(["a", "b", "c"]), "a, b and c"),
    "many names": (listed([str(n) for n in range(20)]), "0, 1, 2, 3, 4 and 15 more"),
    "none": (counted(0, "worker"), "0 workers"),
    "one": (counted(1, "worker"), "1 worker"),
    "two": (counted(2, "worker"), "2 workers"),
    "amount of nothing": (amount(0), "0 bytes"),
    "amount of one byte": (amount(1), "1 byte"),
    "amount of bytes": (amount(999), "999 bytes"),
    "amount of kilobytes": (amount(1000), "1.0 kB"),
    "amount of megabytes": (amount(1_234_567), "1.2 MB"),
    "amount of petabytes": (amount(10**19), "10000.0 PB"),
    "exact bytes": (exact_size(640), "640 B"),
    "exact megabytes": (exact_size(150_249_000), "150.2 MB"),
    "bytes": (size(642_216), "642 kB"),
    "no bytes": (size(0), "0 B"),
    "gigabytes": (size(8.59e9), "8.6 GB"),
    "a speed": (rate(1.175e9), "9.4 Gbit/s"),
    "a whole speed": (rate(125e6), "1 Gbit/s"),
    "days": (duration(200_000), "2.3 days"),
    "a day": (duration(86_399.7), "1 day"),
    "microseconds": (duration(27e-6), "27 µs"),
    "nothing": (duration(0), "0 µs"),
}


@pytest.mark.parametrize(("said", "expected"), WORDS.values(), ids=WORDS)
def test_numbers_are_said_as_a_person_reads_them(said: str, expected: str) -> None:
    assert said == expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpu-b: no such file", "gpu-b: no such file"),
        ("/données/日本\u00a0x \u200d", "/données/日本\u00a0x \u200d"),
        ("\x1b]0;TITLE\x07\x1b[2J", r"\x1b]0;TITLE\x07\x1b[2J"),
        ("rewritten\r[launch] done\b", r"rewritten\r[launch] done\x08"),
        ("\x9b2J \x85", r"\x9b2J \x85"),
        ("\udc9b2J \udce9", "\\x9b2J \udce9"),
        ("\ud800", r"\ud800"),
        ("\u202egnp.exe \u2066\u200f\u061c", r"\u202egnp.exe \u2066\u200f\u061c"),
        ("\ud83d\udd00", r"\ud83d\udd00"),
        ("a\u2028[launch] done", r"a\u2028[launch] done"),
        ("first\r\n\tsecond\n", "first\n\tsecond\n"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_a_line_of_others_stays_one_line() -> None:
    assert harmless_line(" refused\n[launch] done in 1.0 s\n") == r"refused\n[launch] done in 1.0 s"


@given(st.text(st.characters(), max_size=40))
def test_any_text_can_be_shown(text: str) -> None:
    shown = harmless(text)
    assert harmless(shown) == shown
    assert not any(unicodedata.category(each) == "Cc" for each in shown if each not in "\n\t")
    assert "\n" not in harmless_line(text)
    shown.encode("utf-8", "surrogateescape")
