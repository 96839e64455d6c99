"""Which paths the rules of `.gitignore` leave out, as git decides it (gitignore(5)). Pure.

Not by the library pathspec: there `!src/` brings back everything below `src` that an earlier line leaves out, which may
be gigabytes; in git it brings back the directory alone. Like git's, these rules look at bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

_NAMED = {
    b"alnum": rb"A-Za-z0-9",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t-\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
_TOKEN = re.compile(
    rb"""
      (?P<deep> (?:(?<=^)|(?<=/)) \*{2,} (?:/|$) )   # `**` alone between slashes: any number of directories
    | (?P<stars> \*+ )
    | (?P<one> \? )
    | \[ (?P<negated> [!^]?+ ) (?P<members> (?: \[:[a-z]+:\] | \\. | [^\\] ) (?: \[:[a-z]+:\] | \\. | [^\]\\] )* ) \]
    | \\ (?P<quoted> . )
    | (?P<literal> [^\\\[] )
    """,
    re.VERBOSE | re.DOTALL,
)
_MEMBER = re.compile(rb"\[:([a-z]+):\]|(\\.|.)(?:-(\\.|[^\]]))?", re.DOTALL)


class _MatchesNothingError(ValueError):
    """An open bracket, a backslash at the end: git lets such a line match nothing."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line."""

    brings_back: bool
    only_directories: bool
    whole_path: bool
    """Compared with the path from the file's own directory on, not with the name alone."""
    regex: bytes


def is_pattern(text: str) -> bool:
    """Whether a text is one line that can match something."""
    return "\n" not in text and any(True for _ in _rules(text.encode("utf-8", "surrogateescape")))


class IgnoreRules:
    """The lines of one `.gitignore`, or of what stands for one. The last that fits decides."""

    def __init__(self, text: bytes) -> None:
        rules = list(_rules(text))[::-1]
        self._groups = [_Group(kept, list(group)) for kept, group in groupby(rules, lambda rule: rule.brings_back)]

    def decide(self, path: bytes, is_directory: bool) -> bool | None:
        """Whether a path (from the directory of the rules on) is left out; None: these rules do not say.

        What is below a directory that is left out is so too, whatever else fits: ask for each directory on the way.
        """
        for group in self._groups:
            if group.fits(path, is_directory):
                return not group.brings_back
        return None


class _Group:
    """Neighbouring rules that say the same: their order does not matter, and one regular expression holds them all."""

    def __init__(self, brings_back: bool, rules: list[_Rule]) -> None:
        self.brings_back = brings_back
        files = [rule for rule in rules if not rule.only_directories]
        self._names = {True: _any_of(rules, whole_path=False), False: _any_of(files, whole_path=False)}
        self._paths = {True: _any_of(rules, whole_path=True), False: _any_of(files, whole_path=True)}

    def fits(self, path: bytes, is_directory: bool) -> bool:
        names, paths = self._names[is_directory], self._paths[is_directory]
        if names is not None and names.fullmatch(path.rpartition(b"/")[2]):
            return True
        return paths is not None and paths.fullmatch(path) is not None


def _any_of(rules: list[_Rule], whole_path: bool) -> re.Pattern[bytes] | None:
    regexes = [rule.regex for rule in rules if rule.whole_path == whole_path]
    return re.compile(b"|".join(regexes), re.DOTALL) if regexes else None


def _rules(text: bytes) -> Iterator[_Rule]:
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        pattern = _without_trailing_spaces(line.removesuffix(b"\r"))
        if not pattern or pattern.startswith(b"#"):
            continue
        brings_back = pattern.startswith(b"!")
        pattern = pattern[brings_back:]
        only_directories = pattern.endswith(b"/")
        pattern = pattern.removesuffix(b"/")
        try:
            regex = _regex(pattern.removeprefix(b"/"))
        except _MatchesNothingError:
            continue
        yield _Rule(brings_back, only_directories, b"/" in pattern, regex)


def _without_trailing_spaces(line: bytes) -> bytes:
    stripped = line.rstrip(b" ")
    quoting = len(stripped) - len(stripped.rstrip(b"\\"))
    return stripped + b" " if quoting % 2 and stripped != line else stripped


def _regex(pattern: bytes) -> bytes:
    parts = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise _MatchesNothingError(pattern)
        parts.append(_translated(token, is_last=token.end() == len(pattern)))
        at = token.end()
    return b"".join(parts)


def _translated(token: re.Match[bytes], is_last: bool) -> bytes:
    if token["deep"]:
        return b".*" if is_last and not token["deep"].endswith(b"/") else b"(?:.*/)?"
    if token["stars"]:
        return b"[^/]*"
    if token["one"]:
        return b"[^/]"
    if token["members"]:
        members = b"".join(_ranges(token["members"])) or b"/"
        return (b"(?!/)[^%s]" if token["negated"] else b"(?!/)[%s]") % members
    return re.escape(token["quoted"] or token["literal"])


def _ranges(members: bytes) -> Iterable[bytes]:
    for name, first, last in _MEMBER.findall(members):
        if name and name not in _NAMED:
            raise _MatchesNothingError(members)
        low, high = first[-1:], last[-1:]
        if name:
            yield _NAMED[name]
        elif not high:
            yield re.escape(low)
        elif low <= high:
            yield re.escape(low) + b"-" + re.escape(high)
