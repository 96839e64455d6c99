"""Which environment values are secrets, and how they are shown: never. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REDACTED = "<redacted>"
_SECRET_KEY = re.compile(
    r"(?:^|_)(?:secrets?|tokens?|passwords?|passwd|passphrase|pwd|credentials?|auth|cookie|(?:api|access|private|account)?_?key)(?:_|$)"
    r"|secret|token|password|apikey",
    re.IGNORECASE,
)
_URL_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def is_secret(key: str, value: str) -> bool:
    """Whether an environment value must not be shown: its key says so, or it is a URL with a password in it."""
    return key != "PWD" and bool(_SECRET_KEY.search(key) or _URL_WITH_PASSWORD.search(value))


def redacted(env: Mapping[str, str]) -> dict[str, str]:
    """The same environment with every secret's value replaced."""
    return {key: REDACTED if is_secret(key, value) else value for key, value in env.items()}


def redacted_yaml(text: str) -> str:
    """A cluster file as it was given, each secret of an `env` mapping replaced where it stands."""
    import yaml

    spans = [
        (node.start_mark.index, node.end_mark.index) for node in _secret_nodes(yaml.compose(text, yaml.SafeLoader))
    ]
    for start, end in sorted(set(spans), reverse=True):
        text = f"{text[:start]}{REDACTED}{text[end:]}"
    return text


def _secret_nodes(root: Any) -> list[Any]:
    """The value nodes of secrets, in every `env` mapping of a YAML node graph (aliases are visited once)."""
    import yaml

    found: list[Any] = []
    seen: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        node, within_env = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += [(child, False) for child in node.value]
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if within_env and isinstance(value, yaml.ScalarNode) and is_secret(str(key.value), value.value):
                    found.append(value)
                waiting.append((value, key.value == "env"))
    return found
