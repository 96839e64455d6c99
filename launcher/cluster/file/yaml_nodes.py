"""YAML text as nodes that know their place. Whatever the text holds, it is read in bounded time and memory.

A file is walked through once: its values, their places, and its copy without secrets all come from these nodes. They
are made of the parser's events: `yaml.compose` refuses an anchor that is given again, hides tags, has no bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import yaml

from launcher.cluster.file.file_text import Mistakes, shortened
from launcher.cluster.placeholders import any_in

MAX_VALUES = 100_000
"""Counted with every use of an alias, so that a few nested aliases cannot stand for billions of values."""
MAX_DEPTH = 20

_UNUSABLE = re.compile("[\0\ud800-\udfff]")
"""What escapes such as `"\\0"` can put into a text, though no argument or variable can hold it."""
_PROPERTIES = re.compile(r"(?:[&!]\S*+\s*+(?:#[^\r\n\x85\u2028\u2029]*+\s*+)*+)*+")
"""An anchor and a tag in front of a value, and the comments behind them."""
_TAB_INDENT = re.compile(r"( *)\t\s*\S")
_KINDS = {
    "tag:yaml.org,2002:str": "text",
    "tag:yaml.org,2002:int": "integer",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:bool": "truth value",
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:timestamp": "date",
    "tag:yaml.org,2002:merge": "merge key",
}
_NAMES_OF_NODES = {
    "while scanning an alias": "`*` in front makes an alias of what follows, which cannot be the name of one",
    "while scanning an anchor": "`&` in front makes an anchor of what follows, which cannot be the name of one",
    "while scanning a tag": "`!` in front makes a tag of what follows, and tags are not allowed",
}
_ALLOWED_TAGS = ("!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map")))


class Scalar(NamedTuple):
    """One plain value."""

    line: int
    column: int
    text: str
    """As written, after YAML has removed quotes and escapes."""
    kind: str
    """What YAML takes it for: text, integer, number, truth value, nothing, date or merge key."""
    span: tuple[int, int] = (0, 0)
    """Where it begins and ends in the text, quotes included; an anchor and a tag stand before it."""
    size: int = 1


class YamlList(NamedTuple):
    line: int
    column: int
    items: tuple[Node, ...]
    size: int


class YamlMap(NamedTuple):
    """A mapping, its keys as written and each key once."""

    line: int
    column: int
    entries: dict[str, tuple[Scalar, Node]]
    size: int


Node = Scalar | YamlList | YamlMap


def parse(text: str, mistakes: Mistakes) -> Node | None:
    """The one document in a text; None if it is empty."""
    # libyaml's parser is ten times faster; PyYAML has it wherever it was installed from a wheel.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Tree(text, yaml.parse(text, loader), mistakes).document()
    except yaml.MarkedYAMLError as error:
        _fail_with_syntax(error, text, mistakes)
    except yaml.YAMLError as error:
        mistakes.fail(0, 0, f"the file is not YAML: {' '.join(str(error).split())}")


def _fail_with_syntax(error: yaml.MarkedYAMLError, text: str, mistakes: Mistakes) -> NoReturn:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    tabs = [place for place in _tab_indents(text) if place[0] >= line]
    if tabs and tabs[0][0] == line:
        for place in tabs:
            mistakes.add_at(*place, "a tab in the indentation; YAML allows only spaces there: replace it by spaces")
        mistakes.check()
    if error.context in _NAMES_OF_NODES and error.context_mark:
        line, column = error.context_mark.line + 1, error.context_mark.column + 1
        mistakes.fail(line, column, f"this is not YAML: {_NAMES_OF_NODES[error.context]}; if it is a text, quote it")
    begun = f" that begins in line {error.context_mark.line + 1}" if error.context_mark else ""
    context = f" {error.context}{begun}" if error.context else ""
    remedy = "look for a wrong indentation or an open quote or bracket here or just above"
    if any_in(text.split("\n")[line - 1 : line]):
        remedy = 'quote a text with braces in a list or mapping: "--task_index={index}"'
    mistakes.fail(line, column, f"this is not YAML: {error.problem}{context}; {remedy}")


def _tab_indents(text: str) -> Iterator[tuple[int, int]]:
    for line, content in enumerate(text.split("\n"), 1):
        if found := _TAB_INDENT.match(content):
            yield line, found.end(1) + 1


class _Tree:
    """Builds nodes from the parser's events; built from below, a node that contains itself cannot come about."""

    def __init__(self, text: str, events: Iterator[Any], mistakes: Mistakes) -> None:
        self._text = text
        resolver: Any = yaml.resolver.Resolver
        self._resolve = resolver().resolve
        self._events = events
        self._mistakes = mistakes
        self._anchors: dict[str, Node] = {}
        self._values = 0

    def document(self) -> Node | None:
        """The only document of the stream."""
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        root = self._node(next(self._events), 0)
        next(self._events)
        after = next(self._events)
        if isinstance(after, yaml.DocumentStartEvent):
            self._fail(after, "a second document starts here; a cluster file is one document: remove `---`")
        return None if isinstance(root, Scalar) and root.kind == "nothing" else root

    def _node(self, event: Any, depth: int) -> Node:
        node = self._alias(event) if isinstance(event, yaml.AliasEvent) else self._new_node(event, depth)
        self._values += 1
        if max(self._values, node.size) > MAX_VALUES:
            self._fail(event, f"more than {MAX_VALUES:,} values (each alias counted in full); a cluster file has fewer")
        return node

    def _alias(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            # the name is not repeated: this may be a password that begins with an asterisk
            self._fail(event, "this alias has no anchor that ends before it; if it is a text, quote it")
        return self._anchors[event.anchor]

    def _new_node(self, event: Any, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._fail(event, f"nested more than {MAX_DEPTH} deep; a cluster file needs 4 levels")
        if event.tag is not None and event.tag not in _ALLOWED_TAGS:
            # a tag of one's own is not repeated: it may be a password that begins with an exclamation mark
            is_own = event.tag.startswith("!")
            tag = "a tag" if is_own else f"the tag {shortened(event.tag.replace('tag:yaml.org,2002:', '!!'))}"
            text = "; if it is a text, quote it" if is_own else ""
            self._add(event, f"{tag}; tags are not allowed: remove it{text}")
        if isinstance(event, yaml.ScalarEvent):
            node: Node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._list(event, depth)
        else:
            node = self._map(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _scalar(self, event: Any) -> Scalar:
        line, column = _start(event)
        if _UNUSABLE.search(event.value):
            self._add(event, "a text with a NUL character or half a character; no program can be given it: remove it")
        plain_tag = self._resolve(yaml.ScalarNode, event.value, event.implicit)
        kind = _KINDS.get(plain_tag if event.tag is None else "", "text")
        return Scalar(line, column, event.value, kind, self._span(event))

    def _span(self, event: Any) -> tuple[int, int]:
        start, end = event.start_mark.index, event.end_mark.index
        if event.anchor or event.tag:
            begins = _PROPERTIES.match(self._text, start, end)
            start = begins.end() if begins else start
        return start, end

    def _list(self, start: Any, depth: int) -> YamlList:
        items = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return YamlList(*_start(start), tuple(items), 1 + sum(item.size for item in items))

    def _map(self, start: Any, depth: int) -> YamlMap:
        entries: dict[str, tuple[Scalar, Node]] = {}
        size = 1
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, self._node(event, depth + 1), entries)
            value = self._node(next(self._events), depth + 1)
            size += 1 + value.size
            if key is not None:
                entries[key.text] = (key, value)
        return YamlMap(*_start(start), entries, size)

    def _key(self, event: Any, key: Node, entries: dict[str, tuple[Scalar, Node]]) -> Scalar | None:
        """The key, or None if it cannot be used."""
        if not isinstance(key, Scalar):
            self._add(event, "a list or a mapping as a key; a key is a word: are there braces or brackets too many?")
        elif key.kind == "merge key":
            self._add(event, "the merge key '<<' is not allowed; use `defaults:`, or a plain alias as a value")
        elif key.text in entries:
            first = entries[key.text][0]
            place = f"line {first.line}, column {first.column}"
            self._add(event, f"the key {shortened(key.text)} a second time, first at {place}; keep one of them")
        else:
            return key
        return None

    def _add(self, event: Any, message: str) -> None:
        self._mistakes.add_at(*_start(event), message)

    def _fail(self, event: Any, message: str) -> NoReturn:
        self._mistakes.fail(*_start(event), message)


def _start(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
