"""Secrets within a command line: the values of options that say so, and whatever is one in any text. Pure.

A word that is a command line itself (`sh -c "API_KEY=x python train.py"`) is looked through like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from launcher.cluster.redaction.names import Level, level
from launcher.cluster.redaction.texts import Span, apart, is_named_secret, is_reference, replaced, secrets
from launcher.lazy_pattern import lazy_pattern

_DEEPEST = 4
"""Command lines within command lines."""
_OPTION = lazy_pattern(r"--?(?P<name>[A-Za-z][\w.-]*+)(?:=(?P<value>.*))?", re.DOTALL)
_HEADER_WORD = lazy_pattern(r"""["']?(?P<name>[\w-]+)\s*:\s*(?P<value>.*?)["']?""", re.DOTALL)
_HEADER_OPTIONS = frozenset(["-H", "--header", "--proxy-header"])
_LOGIN_OPTIONS = frozenset(["-u", "--user", "-U", "--proxy-user"])
_LOGIN_NAMES = frozenset(["user", "proxy-user"])
_LOGIN = lazy_pattern(r"""["']?(?!\d+:\d+["']?$)[^:\s]*:(?!//)(?P<value>.+?)["']?""", re.DOTALL)
"""Two numbers are a user and a group."""
_SHORT_LOGIN = lazy_pattern(r"-u(?!\d+:\d+$)[^:/\s]+:(?P<value>.+)", re.DOTALL)
_ATTACHED_ONLY = frozenset(["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump", "7z"])
"""Programs where the word behind the option for a password is not its value."""
_LETTERS = {
    **dict.fromkeys(_ATTACHED_ONLY, "p"),
    **dict.fromkeys(("sshpass", "login", "twine", "mongo", "mongosh", "cqlsh", "rabbitmqadmin"), "p"),
    **dict.fromkeys(("smbclient", "sqlcmd", "bcp", "zip", "unzip", "mosquitto_pub", "mosquitto_sub"), "P"),
    **dict.fromkeys(("ldapsearch", "ldapmodify"), "w"),
    **dict.fromkeys(("http", "https", "redis-cli"), "a"),
    "curl": "b",
    "openssl": "k",
    **dict.fromkeys(("date", "docker", "podman", "python", "python3", "scp", "ssh", "sudo"), ""),
}
"""One-letter options that are passwords, by program or its command (`docker login`), up to the next one of these in the
line; `-p` of others is looked at more closely."""
_USERS_ONLY = frozenset(["date", "docker", "podman", "sudo"])
"""Programs whose option `-u` is no login."""
_TAKES_KEY = frozenset(["wandb login", "login --relogin", "vault login"])
"""What a key follows as an argument."""
_SETTING = frozenset(["set", "config", "--set"])
"""Words that the name of a setting follows, and its value."""
_MADE_UP = lazy_pattern(r"(?=[^A-Za-z]*[A-Za-z])(?=[^\d]*\d)[^/.,:=]{6,}|.*[!$%^&*@#?~].*", re.DOTALL)
_QUOTED = lazy_pattern(r"""(?P<quote>["'])(?P<inside>(?:(?!(?P=quote))[^\\]|\\.)*+)(?P=quote)""", re.DOTALL)
_SHELL_WORD = lazy_pattern(r"""(?:[^\s"';|&()\\]++|\\(?!\n).?|"(?:[^"\\]|\\.)*+"|'[^']*+'|["'])++""", re.DOTALL)


def redacted_words(words: Sequence[str]) -> list[str]:
    """A command line without its secrets."""
    return [replaced(word, spans) for word, spans in zip(words, _secrets(words, 0), strict=True)]


def redacted_line(line: str) -> str:
    """The same of a command line that is one text, as for a shell."""
    return replaced(line, _in_line(line, 0))


def _secrets(words: Sequence[str], depth: int, *, as_typed: bool = False) -> list[list[Span]]:
    """Where secrets stand in each word; quotes are still there in words as they were typed."""
    found: list[list[Span]] = []
    program = before = earlier = ""
    for word in words:
        spans = [*_in_word(word, before, earlier, program), *secrets(word)]
        if depth < _DEEPEST and not word.isalnum():
            for start, end in (
                [quoted.span("inside") for quoted in _QUOTED().finditer(word)] if as_typed else [(0, len(word))]
            ):
                spans += _moved(_in_line(word[start:end], depth + 1), start) if " " in word[start:end] else []
        found.append(apart([span for span in spans if span[0] < span[1]]))
        name = _unquoted(word).rpartition("/")[2]
        program = name if name in _LETTERS else program
        if word.strip():  # a line that goes on in the next one is no word
            earlier, before = before, "" if _is_short_password(word, program) else word
    return found


def _in_line(line: str, depth: int) -> list[Span]:
    words = list(_SHELL_WORD().finditer(line))
    spans = secrets(line)
    for word, own in zip(words, _secrets([word[0] for word in words], depth, as_typed=True), strict=True):
        spans += _moved(own, word.start())
    return apart(spans)


def _moved(spans: list[Span], by: int) -> list[Span]:
    return [(start + by, end + by) for start, end in spans]


def _in_word(word: str, before: str, earlier: str, program: str) -> Iterator[Span]:
    """The value of an option in a word, with what stands in the two words before."""
    if (option := _OPTION().fullmatch(word)) and option["value"] is not None:
        if is_named_secret(option["name"], _unquoted(option["value"])):
            yield option.span("value")
        elif option["name"] in _LOGIN_NAMES:
            yield from _in_login(_LOGIN().fullmatch(word, option.start("value")))
    elif _is_value_of(before, word) or _is_argument(word, before, earlier, program):
        yield 0, len(word)
    elif before in _HEADER_OPTIONS or word.startswith("-H"):
        header = _HEADER_WORD().fullmatch(word, 2 if word.startswith("-H") else 0)
        if header and level(header["name"]) >= Level.LIKELY and not is_reference(header["value"]):
            yield header.span("value")
    elif before in _LOGIN_OPTIONS and program not in _USERS_ONLY:
        yield from _in_login(_LOGIN().fullmatch(word))
    elif login := _SHORT_LOGIN().fullmatch(word):
        yield from _in_login(login)
    elif _is_short_password(word, program):
        yield 2, len(word)


def _in_login(login: re.Match[str] | None) -> Iterator[Span]:
    """`ada:hunter2`."""
    if login and not is_reference(login["value"]):
        yield login.span("value")


def _is_value_of(option: str, word: str) -> bool:
    """`--api-key x`."""
    named = _OPTION().fullmatch(option)
    if not named or named["value"] is not None or word.isspace() or re.match(r"--?[A-Za-z][\w-]*(?:=|$)", word):
        return False
    return is_named_secret(named["name"], _unquoted(word))


def _is_argument(word: str, before: str, earlier: str, program: str) -> bool:
    """`sshpass -p x`, `wandb login x`, `aws configure set aws_secret_access_key x`."""
    value = _unquoted(word)
    if value.startswith("-"):
        return False
    if (letter := _LETTERS.get(program)) and before == f"-{letter}" and program not in _ATTACHED_ONLY:
        return is_named_secret("pass", value)
    if f"{earlier} {before}" in _TAKES_KEY:
        return is_named_secret("key", value)
    return earlier in _SETTING and is_named_secret(before, value)


def _is_short_password(word: str, program: str) -> bool:
    """`-phunter2`, as with mysql."""
    if len(word) < 3 or word[0] != "-" or word[1] == "-":
        return False
    return word[1] == _LETTERS.get(program) or (word[1] == "p" and _MADE_UP().fullmatch(word, 2) is not None)


def _unquoted(word: str) -> str:
    return word.strip("\"'")
