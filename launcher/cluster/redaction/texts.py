"""Secrets within a text, by what stands around them or by their own form. Pure, and in linear time on any text.

Of `Server=db;Password=x` only the `x` is one. What is looked for:

- the value behind a name that says so (`names`): `password=x`, `"api_key": "x"`, `Authorization: x`;
- the password in an address (`://user:x@host`), and in its path or query what was made to be guessed by nobody;
- keys and tokens of well-known form (`ghp_...`, `AKIA...`, a JWT, a private key).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from launcher.cluster.redaction.names import Level, level
from launcher.lazy_pattern import lazy_pattern

REDACTED = "<redacted>"
Span = tuple[int, int]
"""Where a secret begins, and where it ends."""

_NAMED = lazy_pattern(
    r"""(?<![\w.-])-*+(?P<name>[A-Za-z_][\w.-]*+)(?P<quote>["']?+\]?+)"""
    r"""(?P<sign>\s*+(?::=|=>|=(?!=))[ \t]?+|[ \t]?+:(?!//|:)[ \t]*+)"""
)
_VALUE = lazy_pattern(r"""(["'])(?P<quoted>(?:(?!\1)[^\\]|\\.)*+)\1|(?P<bare>[^\s"';]++)""", re.DOTALL)
_PAIR = lazy_pattern(
    r"""(?<!\w)["'](?P<name>[A-Z][A-Z0-9_]{2,60})["']\s*+,\s*+(?P<quote>["'])(?P<value>[^"'\n]++)(?P=quote)"""
)
"""`setdefault("HF_TOKEN", "x")`."""
_CONSTANT = lazy_pattern(r"[A-Z][A-Z0-9_]*")
_QUERIED = lazy_pattern(r"[?&#](?P<name>[A-Za-z][\w.-]{0,60})=(?P<bare>[^\s&#\"']++)")
_HEADER_LINE = lazy_pattern(
    r"\b(?:(?:proxy-)?authorization|x-[a-z-]{0,30}(?:key|token)|(?:set-)?cookie)\s?+:\s*+([^\"'\n]++)", re.IGNORECASE
)
_BEARER = lazy_pattern(r"\bbearer\s++([\w.~+/=:-]++)", re.IGNORECASE)
_NO_BEARER = frozenset(["of", "auth", "authentication", "authorization", "is", "token", "tokens"])
_TOLD = lazy_pattern(
    r"\b(?:password|passwd|passphrase|pass|pwd|token|secret|key)(?:\s++(?:is|was))?+\s*+:?+(?<=[\s:])\s*+(\S++)",
    re.IGNORECASE,
)
"""In what a person wrote."""
_NETRC = lazy_pattern(r"\b(?:password|passwd)\s++(\S++)")
_BASIC = lazy_pattern(r"\b(?:Basic|Negotiate)\s++((?=[A-Za-z+/]*[0-9A-Z=])[A-Za-z0-9+/]{8,}+=*+)")
_TOKEN = lazy_pattern(
    r"(?:(?<![A-Za-z0-9])(?:"
    r"gh[oprsu]_[A-Za-z0-9]{4,}|github_pat_\w{8,}|gl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent)-[\w-]{4,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{10,}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w-]{10,}|GOCSPX-[\w-]{10,}"
    r"|sk-(?=[a-z_-]{0,40}[A-Z0-9])[\w-]{12,}|sk-[a-z]{20,}|[sr]k_(?:live|test)_\w{8,}|whsec_\w{8,}"
    r"|hf_(?=[a-z]{0,40}[A-Z0-9])[A-Za-z0-9]{10,}|hf_[a-z]{24,}|gsk_[A-Za-z0-9]{16,}|r8_[A-Za-z0-9]{16,}|nvapi-[\w-]{16,}"
    r"|tskey-[\w-]{8,}|\d{6,12}:AA[\w-]{20,}|npm_[A-Za-z0-9]{10,}|pypi-(?=[a-z-]{0,40}[A-Z0-9])[\w-]{12,}|dckr_pat_[\w-]{8,}|do[opr]_v1_[a-f0-9]{16,}"
    r"|shp[a-z]{2}_[a-fA-F0-9]{16,}|glsa_\w{16,}|dapi[a-f0-9]{24,}|hv[sbr]\.[\w-]{16,}|[0-9a-f]{32}-us\d{1,2}(?!\w)"
    r")|(?<![\w-])(?:SG\.[\w-]{10,}+\.[\w-]{10,}+|eyJ[\w-]{5,}+\.[\w-]{4,}+)"
    r")(?:[.=]{0,2}[\w-]++)*+"
)
_PRIVATE_KEY = lazy_pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_END_OF_KEY = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}-----")
_RUN = lazy_pattern(r"\S+")
_PASSWORD = lazy_pattern(r"//[^\s:@/?#]*+:(?!\d{1,5}[/?#])")
_USER = lazy_pattern(r"://([^\s:@/?#]{12,})@")
_NO_SCHEME = lazy_pattern(
    r"(?!mailto:)[\w.+-]{1,60}:(?!//)([^\s@:=]{1,200})@(?!sha256:)[\w.-]++(?:\([^\s)]*+\))?(?::\d+)?(?:/\S*)?"
)
_ADDRESS = lazy_pattern(r"\bhttps?://[^\s\"'<>]++", re.IGNORECASE)
_HOOK = lazy_pattern(
    r"hooks?(?:\.[\w.-]{1,80}+)?/(?:services/|catch/|v\d/)?|/bot(?=\d)|/t/(?=[a-z]{2}-[0-9a-f]{4})", re.IGNORECASE
)
_VERSIONED = lazy_pattern(r"/(?:archive|blob|commit|raw|resolve|runs|sha256|tree)/$")
_DIGEST = lazy_pattern(r"[0-9a-f]{32,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Of a commit or a file, or the number of a run: as random as a secret, but behind a word that says what it is."""
_PART = lazy_pattern(r"[^/?&=#;:,]{16,}+")
_FILE = lazy_pattern(r"\.[A-Za-z][A-Za-z0-9]{0,5}$")

_PLAIN = lazy_pattern(
    r"[-+]?(?:\d{1,3}|\d*\.\d+)(?:e[-+]?\d+)?"
    r"|(?:true|false|yes|no|on|off|none|null|nil|auto|default|basic|digest|ntlm|bearer|oauth2?|kerberos|required"
    r"|optional|disabled?|enabled?|empty|unset|env|prompt|anonymous)"
    r"|(?:~|\.{1,2})?/(?:run|var|etc|home|mnt|data|opt|tmp|usr|root|srv|scratch|Users|nfs|proc|dev|workspace)(?:/.*)?"
    r"|(?:~|\.{1,2})/.*"
    r"|[\w./-]{1,200}\.(?:json|ya?ml|py|txt|pem|key|crt|toml|ini|cfg|conf|sh)"
    r"|<[\w |-]*>|\[[A-Z]+\]|\*+",
    re.IGNORECASE,
)
_LONGEST_PLAIN = 200
_REFERENCE = lazy_pattern(
    r"(?:(?:bearer|basic|token) )?(?:\$\{\w+\}|\$(?:\((?! *(?:echo|printf)\b)[^)]*\)?)?|\$(?-i:[A-Z_][A-Z0-9_]*)"
    r"|`(?! *(?:echo|printf)\b)[^`]*`?|\{[a-z_]{1,30}\})",
    re.IGNORECASE,
)
"""What stands for a value that is elsewhere; a text without quotes may have been cut at a space."""
_CODE = lazy_pattern(
    r"(?:[a-z_]\w*\.)+[a-z_]\w*[(\[].*|(?:getenv|getpass|input|len|open|str)\(.*|(?:args|cfg|config|flags|self|sys)\.[\w.]+",
    re.DOTALL,
)
"""What a program works out: `os.environ['HF_TOKEN']`, `text.split()`."""
_COUNTING = lazy_pattern(r"(?:^|[_.-])(?:max|min|num|n|total|count)(?:[_.-]|$)|tokens|keys$|passes$", re.IGNORECASE)
_MIXED = lazy_pattern(r"(?=[^A-Za-z]*[A-Za-z])(?=[^\d]*\d)\S{6,}|[^\W\d_]+[!$%^&*+=@#?~]\S+|\S{24,}")


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a variable must not be shown: its name says so, or it holds a secret."""
    return is_named_secret(name, value) or bool(secrets(value))


def is_named_secret(name: str, value: str) -> bool:
    """Whether a name says that this value is a secret."""
    sure = level(name)
    if sure is Level.NONE or not value or value == REDACTED or is_reference(value):
        return False
    is_plain = len(value) <= _LONGEST_PLAIN and _PLAIN().fullmatch(value)
    match sure:
        case Level.CERTAIN:
            return True
        case Level.LIKELY:
            return not is_plain and not (value.isdigit() and _COUNTING().search(name))
        case Level.WEAK:
            return bool(_MIXED().fullmatch(value)) and not is_plain
    return False


def is_reference(value: str) -> bool:
    """Whether it only names the place of a secret: `$DB_PASS`, `$(cat /run/secrets/db)`."""
    return len(value) <= _LONGEST_PLAIN and _REFERENCE().fullmatch(value.strip()) is not None


def redacted(env: Mapping[str, str]) -> dict[str, str]:
    """The same environment with every secret's value replaced."""
    return {name: REDACTED if is_secret(name, value) else value for name, value in env.items()}


def redacted_text(text: str) -> str:
    """The text without its secrets."""
    return replaced(text, secrets(text))


def secrets(text: str, prose: bool = False) -> list[Span]:
    """Where they stand, in order and apart from each other.

    Args:
        text: any.
        prose: a person wrote it for persons: `password: x` names one, though no program reads it.
    """
    if len(text) < 4:
        return []
    found = [
        *_private_keys(text),
        *_assigned(text, prose),
        *(match.span(1) for match in _HEADER_LINE().finditer(text) if not is_reference(match[1])),
        *(match.span(1) for match in _BEARER().finditer(text) if match[1].lower().rstrip(".:") not in _NO_BEARER),
        *(match.span(1) for match in _BASIC().finditer(text)),
        *(match.span() for match in _TOKEN().finditer(text)),
        *_in_addresses(text),
        *(match.span(1) for match in (_TOLD if prose else _NETRC)().finditer(text) if _MIXED().fullmatch(match[1])),
    ]
    return apart([(start, end) for start, end in found if start < end and text[start:end] != REDACTED])


def apart(spans: list[Span]) -> list[Span]:
    """In order, those that overlap as one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def replaced(text: str, spans: list[Span]) -> str:
    """The text with each of these parts replaced."""
    parts, last = [], 0
    for start, end in spans:
        parts += [text[last:start], REDACTED]
        last = end
    return "".join([*parts, text[last:]])


def _private_keys(text: str) -> Iterator[Span]:
    end = 0
    for begin in _PRIVATE_KEY().finditer(text):
        if begin.start() >= end:
            found = _END_OF_KEY().search(text, begin.end())
            end = found.end() if found else len(text)
            yield begin.start(), end


def _assigned(text: str, prose: bool) -> Iterator[Span]:
    end = 0
    for named in _NAMED().finditer(text):
        if named.end() < end or level(named["name"]) is Level.NONE or not (value := _VALUE().match(text, named.end())):
            continue
        group = value.lastgroup or "bare"
        said = value[group] if group == "quoted" else value[group].rstrip(")]},;")
        is_code = "=" in named["sign"] or named["quote"] or group != "bare"
        if is_reference(value[group]) or (group == "bare" and _is_worked_out(said)):
            continue
        if is_named_secret(named["name"], said) and (is_code or prose or _MIXED().fullmatch(said)):
            end = value.end()
            yield value.span(group)
    for pair in _PAIR().finditer(text):
        if is_named_secret(pair["name"], pair["value"]) and not _CONSTANT().fullmatch(pair["value"]):
            yield pair.span("value")
    for match in _QUERIED().finditer(text):
        if is_named_secret(match["name"], match["bare"]):
            yield match.span("bare")


def _is_worked_out(value: str) -> bool:
    return len(value) <= _LONGEST_PLAIN and _CODE().fullmatch(value) is not None


def _in_addresses(text: str) -> Iterator[Span]:
    if "@" in text:
        for run in _RUN().finditer(text):
            yield from _logins(run[0], run.start())
    if "://" in text:
        for address in _ADDRESS().finditer(text):
            yield from _guessed_by_nobody(address[0], address.start())


def _logins(run: str, at: int) -> Iterator[Span]:
    """The password, or the user's name where that is one, in a run of characters without a space."""
    last = run.rfind("@")
    if last < 0:
        return
    if found := _PASSWORD().search(run, 0, last):
        yield at + found.end(), at + last
    elif found := _NO_SCHEME().fullmatch(run):
        yield at + found.start(1), at + found.end(1)
    for found in _USER().finditer(run):
        if _looks_random(found[1]):
            yield at + found.start(1), at + found.end(1)


def _guessed_by_nobody(address: str, at: int) -> Iterator[Span]:
    """What stands behind the word `hook` in an address, and long random parts of it."""
    begin = address.find("//") + 2
    if (hook := _HOOK().search(address, begin)) and hook.end() < len(address):
        yield at + hook.end(), at + len(address)
        return
    host_end = address.find("/", begin)
    if host_end >= 0:
        for part in _PART().finditer(address, host_end):
            is_digest = _DIGEST().fullmatch(part[0]) and _VERSIONED().search(address, part.start() - 10, part.start())
            if _looks_random(part[0]) and not is_digest:
                yield at + part.start(), at + part.end()


def _looks_random(part: str) -> bool:
    """Letters and digits by turns, as no person writes them: at least every sixth character is another kind of one."""
    if len(part) < 12 or _FILE().search(part):
        return False
    kinds = [0 if letter.isdigit() else 1 if letter.isupper() else 2 if letter.islower() else 3 for letter in part]
    changes = sum(1 for one, other in pairwise(kinds) if one != other and 3 not in (one, other))
    return any(letter.isdigit() for letter in part) and changes * 6 >= len(part)


def in_values(value: Any) -> Any:
    """A value as of JSON without its secrets: texts, and the values of names that say so."""
    match value:
        case str():
            return redacted_text(value)
        case dict():
            return {
                key: REDACTED if isinstance(each, str) and is_named_secret(str(key), each) else in_values(each)
                for key, each in value.items()
            }
        case list() | tuple():
            return [in_values(each) for each in value]
    return value
