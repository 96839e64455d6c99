"""What lists and mappings in a file may be: kinds of values that hold others."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from launcher.cluster.file.file_text import UNREAD, Mistakes, shortened
from launcher.cluster.file.value_kinds import AsWritten, Count, ValueKind, wrong
from launcher.cluster.file.yaml_nodes import Node, Scalar, YamlList, YamlMap

_PORTS = re.compile(r"([1-9][0-9]{0,8})(?:\s*-\s*([1-9][0-9]{0,8}))?")


class ListOf(NamedTuple):
    """A list of values of one kind, read as a tuple."""

    item: ValueKind
    noun: str
    """What messages call one item."""
    example: str
    unique: bool = False
    low: int = 0
    """How many items there must be."""

    @property
    def schema(self) -> dict[str, Any]:
        more = {"uniqueItems": True} if self.unique else {}
        return {"type": "array", "items": self.item.schema, "minItems": self.low, **more}

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """The items that could be read; `UNREAD` if one could not."""
        if not isinstance(node, YamlList) or len(node.items) < self.low:
            return wrong(node, name, f"a list such as {self.example}", mistakes)
        values = [self.item.value_of(item, self.noun, mistakes) for item in node.items]
        if self.unique and _repeated(node, values, self.noun, mistakes):
            return UNREAD
        return UNREAD if any(value is UNREAD for value in values) else tuple(values)


def _repeated(node: YamlList, values: list[Any], noun: str, mistakes: Mistakes) -> bool:
    """Note every item that stands in a list a second time."""
    first: dict[Any, Node] = {}
    again = False
    for item, value in zip(node.items, values, strict=True):
        if value is not UNREAD and value in first:
            place = f"line {first[value].line}, column {first[value].column}"
            mistakes.add(item, f"{noun} {value} is listed twice, first at {place}; remove one of them")
            again = True
        first.setdefault(value, item)
    return again


class Ports:
    """A run of port numbers: `20000-20999`, one number, or a list without gaps. Read as (first, last)."""

    @property
    def schema(self) -> dict[str, Any]:
        port = {"type": "integer", "minimum": 1, "maximum": 65535}
        span = {"type": "string", "pattern": r"^[0-9]+\s*-\s*[0-9]+$"}
        return {"anyOf": [port, span, {"type": "array", "items": port, "minItems": 1, "uniqueItems": True}]}

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        if not isinstance(node, YamlList):
            return self._span(node, name, mistakes)
        ports = ListOf(Count(1, 65535), "port", "[20000, 20001]", unique=True, low=1).value_of(node, name, mistakes)
        if ports is UNREAD:
            return UNREAD
        if max(ports) - min(ports) != len(ports) - 1:
            return mistakes.add(node, f"{name} has gaps; list ports that follow each other, such as [20000, 20001]")
        return min(ports), max(ports)

    def _span(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        found = _PORTS.fullmatch(node.text) if isinstance(node, Scalar) else None
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= 65535:
            allowed = "a range from low to high such as 20000-20999, one port, or a list of ports, each 1 to 65535"
            return wrong(node, name, allowed, mistakes)
        return first, last


class Words(NamedTuple):
    """The words of a command line: a list, or one text that is split as a shell splits words."""

    low: int = 0

    @property
    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": AsWritten().schema, "minItems": self.low}]}

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        if isinstance(node, YamlList):
            words = ListOf(AsWritten(), f"a word of {name}", "[python, train.py]").value_of(node, name, mistakes)
        elif isinstance(node, Scalar) and node.kind != "nothing":
            words = self._split(node, name, mistakes)
        else:
            words = ()
        if words is not UNREAD and (len(words) < self.low or isinstance(node, YamlMap)):
            return wrong(node, name, "a list of words such as [python, train.py], or one text", mistakes)
        return words

    def _split(self, node: Scalar, name: str, mistakes: Mistakes) -> Any:
        text = AsWritten().value_of(node, name, mistakes)
        try:
            return text if text is UNREAD else tuple(shlex.split(text))
        except ValueError as error:
            return mistakes.add(node, f"{name} cannot be split into words ({error}); close the quote, or write a list")


class Environment(NamedTuple):
    """Environment variables; values are taken as they are written."""

    reserved: Mapping[str, str]
    """Names that may not be set, each with the reason."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": AsWritten().schema}

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        if not isinstance(node, YamlMap):
            found = "a list" if isinstance(node, YamlList) else "one value"  # which is not repeated: it may be a secret
            return mistakes.add(node, f"{name} is {found}; allowed is a mapping such as {{NCCL_DEBUG: WARN}}")
        read = {key: self._variable(*entry, mistakes) for key, entry in node.entries.items()}
        return UNREAD if any(value is UNREAD for value in read.values()) else read

    def _variable(self, key: Scalar, value: Node, mistakes: Mistakes) -> Any:
        if not re.fullmatch(r"[^=]+", key.text):
            return mistakes.add(key, "a variable's name may not be empty nor hold '='; write NAME: value")
        for reserved, reason in self.reserved.items():
            if re.fullmatch(reserved, key.text):
                return mistakes.add(key, f"{key.text} cannot be set here; {reason}")
        return AsWritten().value_of(value, f"the value of {_named(key.text)}", mistakes)


def _named(variable: str) -> str:
    """Its name; what is none may be a secret, as in `{API_TOKEN:x}`, where a space is missing."""
    return repr(variable) if re.fullmatch(r"[A-Z_][A-Z0-9_]{0,59}", variable) else "a variable"


class Entries(NamedTuple):
    """What was read of a mapping with fixed keys."""

    node: YamlMap
    values: Mapping[str, Any]
    """Without the keys whose value is wrong."""
    given: Mapping[str, Node]
    """The node of every known key, also where its value is wrong."""


class Section(NamedTuple):
    """A mapping with fixed keys."""

    keys: Mapping[str, ValueKind]
    example: str
    required: tuple[str, ...] = ()
    hints: Mapping[str, str] = MappingProxyType({})
    """Unknown keys that users may try, each with what to write instead."""

    @property
    def schema(self) -> dict[str, Any]:
        properties = {key: kind.schema for key, kind in self.keys.items()}
        more = {"required": list(self.required)} if self.required else {}
        return {"type": "object", "additionalProperties": False, "properties": properties, **more}

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """`Entries`, also where some of them are wrong."""
        if not isinstance(node, YamlMap):
            return wrong(node, name, f"a mapping such as {self.example}", mistakes)
        for key, (place, _) in node.entries.items():
            if key not in self.keys:
                mistakes.add(place, f"unknown key {shortened(key)} in {name}; {self._advice(key)}")
        for key in self.required:
            if key not in node.entries:
                mistakes.add(node, f"{name} has no key {key!r}; write for example {self.example}")
        given = {key: value for key, (_, value) in node.entries.items() if key in self.keys}
        values = {key: self.keys[key].value_of(value, key, mistakes) for key, value in given.items()}
        return Entries(node, {key: value for key, value in values.items() if value is not UNREAD}, given)

    def _advice(self, key: str) -> str:
        if key in self.hints:
            return self.hints[key]
        near = difflib.get_close_matches(key.lower()[:60], self.keys, n=1)
        return f"allowed are {', '.join(self.keys)}" + (f"; did you mean {near[0]!r}?" if near else "")


class Shorthand(NamedTuple):
    """A mapping, or one text in its place that stands for the value of one key."""

    key: str
    section: Section
    allowed: str
    """What the text is."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.section.keys[self.key].schema, self.section.schema]}

    def value_of(self, node: Node, name: str, mistakes: Mistakes) -> Any:
        """`Entries`, as of the mapping."""
        if isinstance(node, Scalar) and node.kind == "text":
            key = Scalar(node.line, node.column, self.key, "text")
            node = YamlMap(node.line, node.column, {self.key: (key, node)}, 2)
        if not isinstance(node, YamlMap):
            return wrong(node, name, f"{self.allowed}, or a mapping such as {self.section.example}", mistakes)
        return self.section.value_of(node, name, mistakes)
