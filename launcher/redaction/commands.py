"""Secrets within a command line: the values of options that say so, and whatever is one in any text. Pure.

A word that is a command line itself (`sh -c "API_KEY=x python train.py"`) is looked through like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from launcher.redaction.names import Level, level
from launcher.redaction.texts import Span, apart, is_named_secret, replaced, secrets

_DEEPEST = 4
"""Command lines within command lines."""
_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*+)(?:=(?P<value>.*))?", re.DOTALL)
_HEADER_WORD = re.compile(r"""["']?(?P<name>[\w-]+)\s*:\s*(?P<value>.*?)["']?""", re.DOTALL)
_HEADER_OPTIONS = frozenset(["-H", "--header", "--proxy-header"])
_LOGIN_OPTIONS = frozenset(["-u", "--user", "-U", "--proxy-user"])
_LOGIN = re.compile(r"""["']?[^:\s]*:(?!//)(?P<value>.+?)["']?""", re.DOTALL)
_SHORT_LOGIN = re.compile(r"-u[^:/\s]+:(?P<value>.+)", re.DOTALL)
_LETTERS = {
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump"), "p"),
    "sshpass": "p",
    "redis-cli": "a",
    "ldapsearch": "w",
    "ldapmodify": "w",
    "smbclient": "P",
    "docker": "p",
}
"""One-letter options that are passwords, by program; `-p` of others is looked at more closely."""
_SEPARATE = frozenset(["sshpass", "redis-cli", "ldapsearch", "ldapmodify"])
"""Programs where the password may be a word of its own behind such an option."""
_MADE_UP = re.compile(r"(?=[^A-Za-z]*[A-Za-z])(?=[^\d]*\d)[^/.,:=]{6,}|.*[!$%^&*@#?~].*", re.DOTALL)
_QUOTED = re.compile(r"""(?P<quote>["'])(?P<inside>(?:(?!(?P=quote))[^\\]|\\.)*+)(?P=quote)""", re.DOTALL)
_SHELL_WORD = re.compile(r"""(?:[^\s"';|&()]++|"(?:[^"\\]|\\.)*+"|'[^']*+'|["'])++""", re.DOTALL)


def redacted_words(words: Sequence[str]) -> list[str]:
    """A command line without its secrets."""
    return [replaced(word, spans) for word, spans in zip(words, _secrets(words, 0), strict=True)]


def redacted_line(line: str) -> str:
    """The same of a command line that is one text, as for a shell."""
    return replaced(line, _in_line(line, 0))


def _secrets(words: Sequence[str], depth: int, *, as_typed: bool = False) -> list[list[Span]]:
    """Where secrets stand in each word; quotes are still there in words as they were typed."""
    found: list[list[Span]] = []
    program = before = ""
    for word in words:
        spans = [*_in_word(word, before, program), *secrets(word)]
        if depth < _DEEPEST and not word.isalnum():
            for start, end in (
                [quoted.span("inside") for quoted in _QUOTED.finditer(word)] if as_typed else [(0, len(word))]
            ):
                spans += _moved(_in_line(word[start:end], depth + 1), start) if " " in word[start:end] else []
        found.append(apart([span for span in spans if span[0] < span[1]]))
        name = word.strip("\"'").rpartition("/")[2]
        program = name if name in _LETTERS else program
        before = "" if _is_short_password(word, program) else word
    return found


def _in_line(line: str, depth: int) -> list[Span]:
    words = list(_SHELL_WORD.finditer(line))
    spans = secrets(line)
    for word, own in zip(words, _secrets([word[0] for word in words], depth, as_typed=True), strict=True):
        spans += _moved(own, word.start())
    return apart(spans)


def _moved(spans: list[Span], by: int) -> list[Span]:
    return [(start + by, end + by) for start, end in spans]


def _in_word(word: str, before: str, program: str) -> Iterator[Span]:
    """The value of an option in a word, with what stands in the word before."""
    if (option := _OPTION.fullmatch(word)) and option["value"] is not None:
        if is_named_secret(option["name"], _unquoted(option["value"])):
            yield option.span("value")
    elif _is_value_of(before, word) or (before in _separate_options(program)):
        yield 0, len(word)
    elif before in _HEADER_OPTIONS:
        header = _HEADER_WORD.fullmatch(word)
        if header and level(header["name"]) >= Level.LIKELY:
            yield header.span("value")
    elif (before in _LOGIN_OPTIONS and (login := _LOGIN.fullmatch(word))) or (login := _SHORT_LOGIN.fullmatch(word)):
        yield login.span("value")
    elif _is_short_password(word, program):
        yield 2, len(word)


def _is_value_of(option: str, word: str) -> bool:
    """`--api-key x`."""
    named = _OPTION.fullmatch(option)
    if not named or named["value"] is not None or re.match(r"--?[A-Za-z][\w-]*(?:=|$)", word):
        return False
    return is_named_secret(named["name"], _unquoted(word))


def _separate_options(program: str) -> tuple[str, ...]:
    return (f"-{_LETTERS[program]}",) if program in _SEPARATE else ()


def _is_short_password(word: str, program: str) -> bool:
    """`-phunter2`, as with mysql."""
    if len(word) < 3 or word[0] != "-" or word[1] == "-":
        return False
    return word[1] == _LETTERS.get(program) or (word[1] == "p" and _MADE_UP.fullmatch(word, 2) is not None)


def _unquoted(word: str) -> str:
    return word.strip("\"'")
