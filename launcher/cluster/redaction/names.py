"""Whether the name of a variable, an option or a key says that its value is a secret. Pure.

A name is taken apart into words (`DB_PASS`, `db-pass` and `dbPass` are the same), and its words decide:

- `password`, `secret` and the like mean a secret, in whatever word they stand;
- `token`, `pass`, `key`, `jwt`... mean one where the value does not speak against it (`NUM_TOKENS=512`);
- nothing is secret that only describes: `PASSWORD_FILE`, `KEY_DIM`, `TOKEN_TTL`; nor is what the word in front makes
  another thing: `SORT_KEY`, `PAD_TOKEN`, `FORWARD_PASS`.
"""

from __future__ import annotations

import functools
from enum import IntEnum
from itertools import pairwise

from launcher.lazy_pattern import lazy_pattern


class Level(IntEnum):
    """How sure a name is that its value is a secret."""

    NONE = 0
    WEAK = 1
    """If the value looks like one."""
    LIKELY = 2
    """Unless the value is plain: a number, a truth value, a path."""
    CERTAIN = 3
    """Whatever it is."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


LONGEST = 200
"""Characters of a name that are looked at, from its end."""
_WORDS = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DIRECTORIES = ("PWD", "OLDPWD")
_CERTAIN = lazy_pattern(r"password|passwd|passphrase|passcode|passwort|secret(?!ar[iy]|ion)")
"""In a word of the name, wherever."""
_ENDINGS = (
    *("token", "apikey", "accesskey", "accountkey", "authkey", "privatekey", "privkey", "masterkey", "sshkey"),
    *("connstr", "jwt", "webhook"),
)
"""Of a word of the name."""
_LIKELY = _set(
    "tokens apikeys auth auths authorization bearer connectionstring cookie cookies cred creds credential credentials "
    "dsn fernet mnemonic otp pat psk psw pswd pw pwd sas totp webhook webhooks"
)
"""A word of the name."""
_AT_THE_END = _set("key keys pass pin salt sig signature")
_PAIRS = frozenset(
    f"{first} {second}"
    for second, firsts in {
        "string": "connection conn",
        "str": "connection conn",
        "key": "api access account auth client encryption license master private signing ssh",
        "keys": "api access account auth private signing",
        "phrase": "pass recovery seed",
        "pass": "admin database db mail proxy root smtp user",
    }.items()
    for first in firsts.split()
)
_LEADS_TO_ONE = frozenset(["dsn", "webhook", "webhooks"])
"""Where an address is itself the secret."""
_ADDRESSES = frozenset(["endpoint", "uri", "url", "urls"])
_DESCRIBING = _ADDRESSES | _set(
    "accuracy alg algorithm args audience backend batch bits block budget cache class classification column count "
    "dataset dim dims dir directory domain dropout embed embedding embeddings enabled error errors expiration "
    "expires expiry exporter field file files folder format helper host hosts index issuer len length level limit "
    "loss mask masking max merge method min mixer mode name names num number parallelism path paths pattern plugin "
    "policy pooling port ports prefix prob provider rate ratio realm reduce region required rotation scheme sec "
    "second seconds seen size sock socket step steps store strength stride suffix table timeout ttl type types user "
    "username version vocab window"
)
"""The last word of a name that tells something of a secret, not the secret."""
_OTHER_THINGS = {
    "key": _set(
        "audio batch cache column data dataset dict feature features foreign group hot image index input join "
        "json label layer lookup map metric monitor natural order output partition primary public query registry route "
        "routing row search sequence shard signature sort stage state tag target text time unique"
    ),
    "token": _set(
        "begin blank bos cls end eos first image last mask next oov pad sep sos special start stop unk unknown"
    ),
    "pass": _set("all backward band dry first forward high low multi one second single two"),
    "signature": _set("input model output saved serving"),
}
_NO_PASS = _set(
    "allpass askpass bandpass bypass compass encompass highpass lowpass multipass overpass surpass trespass underpass"
)


@functools.lru_cache(maxsize=1024)
def level(name: str) -> Level:
    """What a name says of its value."""
    if name in _DIRECTORIES:
        return Level.NONE
    words = [word.lower() for word in _WORDS().findall(name[-LONGEST:])]
    if not words or _only_describes(words):
        return Level.NONE
    if any(map(_CERTAIN().search, words)) or "pass word" in " ".join(words):
        return Level.CERTAIN
    if words in (["key"], ["keys"], ["pin"], ["signature"]):
        return Level.WEAK
    return Level.LIKELY if _is_likely(words) else Level.NONE


def _only_describes(words: list[str]) -> bool:
    *before, last = words
    if last in _ADDRESSES and _LEADS_TO_ONE.intersection(before):
        return False
    others = _OTHER_THINGS.get(last) or _OTHER_THINGS.get(last.removesuffix("s"), frozenset())
    if last in ("id", "ids") and before and before[-1] in ("token", "tokens"):
        return True
    return last in _DESCRIBING or (bool(before) and before[-1] in others)


def _is_likely(words: list[str]) -> bool:
    return (
        words[-1] in _AT_THE_END
        or any(word in _LIKELY or word.endswith(_ENDINGS) or _is_pass(word) for word in words)
        or any(f"{first} {second}" in _PAIRS for first, second in pairwise(words))
    )


def _is_pass(word: str) -> bool:
    """`pgpass`, `dbpwd`; the bare `pass` counts at the end of a name alone."""
    return word.endswith(("pass", "pwd")) and word != "pass" and word not in _NO_PASS
