"""What a single value may be: each kind reads a YAML node, notes what is wrong, and describes itself to editors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from launcher.cluster.file.file_text import Mistakes, shortened, unsecret
from launcher.cluster.file.yaml_nodes import Node, Scalar, YamlList, YamlMap
from launcher.cluster.placeholders import MEANINGS

_DURATION = re.compile(r"((?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,12})?)(ms|s|m|h|)")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 7 * 24 * 3600.0


class ValueKind(Protocol):
    """What values of one key may be."""

    @property
    def schema(self) -> dict[str, Any]:
        """The same as a JSON Schema."""

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """The value, or `UNREAD` after noting what is wrong. `name` is what messages call it."""


def described(node: Node) -> str:
    """What a node is, for a message: `the text 'abc'`."""
    if isinstance(node, YamlList):
        return "a list" if node.items else "an empty list"
    if isinstance(node, YamlMap):
        return "a mapping" if node.entries else "an empty mapping"
    if node.kind == "nothing":
        return "empty" if not node.text else f"{node.text}, which is YAML's word for nothing"
    if node.kind == "text":
        return f"the text {shortened(node.text)}"
    return f"the {'number' if node.kind == 'integer' else node.kind} {unsecret(node.text)[:60]}"


def wrong(node: Node, name: str, allowed: str, mistakes: Mistakes) -> Any:
    """Note that a value is not what is allowed."""
    return mistakes.add(node, f"{name} is {described(node)}; allowed is {allowed}")


class Text(NamedTuple):
    """A text that YAML takes for a text."""

    allowed: str = "a text"
    pattern: str = r"(?s:.*\S.*)"
    check: Callable[[str], bool] = lambda _: True

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "description": self.allowed}

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        if not isinstance(node, Scalar) or node.kind != "text":
            return wrong(node, name, f"{self.allowed}{_quoted_remedy(node)}", mistakes)
        if not re.fullmatch(self.pattern, node.text) or not self.check(node.text):
            return wrong(node, name, self.allowed, mistakes)
        return node.text


def _quoted_remedy(node: Node) -> str:
    if isinstance(node, Scalar) and node.text:
        return f'; if it is meant as a text, quote it: "{unsecret(node.text)[:60]}"'
    return ""


class AsWritten:
    """A text, a number or a truth value, taken letter by letter: `1e3`, `010`, `3.10` and `yes` stay what they are."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number", "boolean"]}

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """The text as it stands in the file, without its quotes."""
        if not isinstance(node, Scalar) or node.kind == "nothing":
            remedy = _braces_remedy(node) or 'write "" for an empty text'
            allowed = f"a text, a number, true or false; {remedy}"
            return wrong(node, name, allowed, mistakes)
        return node.text


def _braces_remedy(node: Node) -> str:
    """For `PMI_RANK: {rank}`, which is a mapping in YAML."""
    names = list(node.entries) if isinstance(node, YamlMap) else []
    return f'quote a text in braces: "{{{names[0]}}}"' if len(names) == 1 and names[0] in MEANINGS else ""


class Count(NamedTuple):
    """A whole number in plain digits."""

    low: int
    high: int | None = None

    @property
    def allowed(self) -> str:
        until = "or more" if self.high is None else f"to {self.high}"
        return f"a whole number in plain digits, {self.low} {until}"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low} | ({} if self.high is None else {"maximum": self.high})

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """The number. What YAML would read in another base (`010`, `0x10`, `1:30`) is a mistake."""
        if not isinstance(node, Scalar) or node.kind != "integer":
            return wrong(node, name, self.allowed, mistakes)
        if not re.fullmatch(r"0|[1-9][0-9]{0,8}", node.text) or not self._within(int(node.text)):
            return wrong(node, name, self.allowed, mistakes)
        return int(node.text)

    def _within(self, number: int) -> bool:
        return self.low <= number and (self.high is None or number <= self.high)


class Flag:
    """True or false, and none of YAML's other words for them."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        if isinstance(node, Scalar) and node.kind == "truth value" and node.text in ("true", "false"):
            return node.text == "true"
        return wrong(node, name, "true or false", mistakes)


class Duration(NamedTuple):
    """A length of time, read as seconds."""

    zero: bool = True
    """Whether it may be 0."""

    @property
    def schema(self) -> dict[str, Any]:
        text = {"type": "string", "pattern": f"^{_DURATION.pattern}$"}
        return {"anyOf": [text, {"type": "number", "minimum": 0}]}

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        seconds = self.seconds(node.text) if isinstance(node, Scalar) else None
        return wrong(node, name, self.allowed, mistakes) if seconds is None else seconds

    @property
    def allowed(self) -> str:
        above = "" if self.zero else "above 0 and "
        return f"a duration {above}of at most 7 days, such as 500ms, 10s, 10m, 1h, or a number of seconds"

    def seconds(self, text: str) -> float | None:
        """What a text means; None: it is no duration that is allowed here."""
        number = _DURATION.fullmatch(text)
        seconds = float(number[1]) * _SECONDS[number[2]] if number else -1.0
        return None if seconds < 0 or seconds > _LONGEST or (seconds == 0 and not self.zero) else seconds
