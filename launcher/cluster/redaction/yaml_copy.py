"""A cluster file as it may be written down: every character as it was given, but for secrets."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from launcher.cluster.redaction.commands import redacted_line, redacted_words
from launcher.cluster.redaction.texts import REDACTED, Span, is_secret, redacted_text, secrets

COMMANDS = frozenset(["command", "per_task", "options"])
"""Keys whose values are command lines, wherever below them."""
IN_PLACE_OF_COMMENT = "# (not copied: this comment holds a secret)"
MOST_SOUGHT = 100
SHORTEST = 6
"""Characters of a secret that is recognised when a comment repeats it."""
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_OPEN = re.compile(r"[\w -]{1,60}[:=|>-]?\s*")


def redacted_yaml(text: str) -> str:
    """A cluster file with each secret replaced where it stands, and without the comments that hold one.

    It means the same, and an anchor stays where it was.
    """
    import yaml

    text = str(text)  # libyaml takes nothing that only inherits from it
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # as for reading: they differ in what they accept
    tokens = [token for token in yaml.scan(text, loader) if isinstance(token, yaml.ScalarToken)]
    begins = {token.end_mark.index: token.start_mark.index for token in tokens}
    nodes = _Nodes()
    nodes.visit(_composed(yaml.parse(text, loader)))
    nodes.hide_repeated()
    edits: list[tuple[int, int, str]] = []
    for node, shown in nodes.shown.values():
        end = node.end_mark.index
        if (start := begins.get(end)) is not None:
            edits.append((start, start + len(text[start:end].rstrip()), _written(shown)))
    scalars = [(_content_start(text, token), token.end_mark.index) for token in tokens]
    edits += [(start, end, IN_PLACE_OF_COMMENT) for start, end in _secret_comments(text, scalars, nodes.known)]
    parts, last = [], 0
    for start, end, shown in sorted(edits):
        parts += [text[last:start], shown]
        last = end
    return "".join([*parts, text[last:]])


def _composed(events: Iterator[Any]) -> Any:
    """The node graph, as `yaml.compose` makes it; that knows no anchor which is given again."""
    import yaml

    anchors: dict[str, Any] = {}
    begun: list[list[Any]] = [[]]
    """What belongs to each collection that has not ended."""
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            belonging, node = begun.pop(), begun[-1][-1]
            is_map = isinstance(node, yaml.MappingNode)
            node.value = list(zip(belonging[::2], belonging[1::2], strict=True)) if is_map else belonging
        elif isinstance(event, yaml.AliasEvent):
            begun[-1].append(anchors[str(event.anchor)])
        elif isinstance(event, yaml.NodeEvent):
            node = _node(event)
            begun[-1].append(node)
            if event.anchor is not None:
                anchors[event.anchor] = node
            if isinstance(event, yaml.CollectionStartEvent):
                begun.append([])
    return begun[0][0]


def _node(event: Any) -> Any:
    import yaml

    if isinstance(event, yaml.ScalarEvent):
        end: Any = event.end_mark
        return yaml.ScalarNode("", event.value, None, end)
    return (yaml.SequenceNode if isinstance(event, yaml.SequenceStartEvent) else yaml.MappingNode)("", [])


class _Nodes:
    """The scalars of a YAML node graph that hold secrets, by what stands around them."""

    def __init__(self) -> None:
        self.shown: dict[int, tuple[Any, str]] = {}
        """By the node's id: the node, and what is shown in its place."""
        self.known: set[str] = set()
        """The values of which nothing is shown."""
        self._scalars: list[Any] = []
        self._seen: set[tuple[int, str]] = set()

    def visit(self, root: Any, key: str = "") -> None:
        """Look through a node below a key, and all below it (an alias once for each key it stands below)."""
        import yaml

        waiting: list[tuple[Any, str]] = [(root, key)]
        while waiting:
            node, key = waiting.pop()
            if node is None or (id(node), key) in self._seen:
                continue
            self._seen.add((id(node), key))
            if isinstance(node, yaml.ScalarNode):
                self._scalars.append(node)
                self._show(node, redacted_line(node.value) if key in COMMANDS else redacted_text(node.value))
            elif isinstance(node, yaml.SequenceNode):
                if key in COMMANDS:
                    self._visit_words(node)
                waiting += [(child, key) for child in node.value]
            else:
                for name, value in node.value:
                    if key == "env" and isinstance(value, yaml.ScalarNode) and is_secret(str(name.value), value.value):
                        self._show(value, REDACTED)
                    waiting.append((value, key if key in ("env", "per_task") else str(name.value)))

    def hide_repeated(self) -> None:
        """A value that is secret in one place is in all."""
        sought = list(itertools.islice(self.known, MOST_SOUGHT))
        for node in self._scalars:
            if any(secret in node.value for secret in sought):
                self._show(node, REDACTED)

    def _visit_words(self, sequence: Any) -> None:
        import yaml

        words = [child for child in sequence.value if isinstance(child, yaml.ScalarNode)]
        for word, shown in zip(words, redacted_words([word.value for word in words]), strict=True):
            self._show(word, shown)

    def _show(self, node: Any, shown: str) -> None:
        if shown == node.value:
            return
        earlier = self.shown.get(id(node))
        if earlier is None or shown == REDACTED:
            self.shown[id(node)] = (node, shown)
        elif earlier[1] not in (shown, REDACTED):
            self.shown[id(node)] = (node, REDACTED)  # it stands in several places that show different parts of it
        if shown == REDACTED and len(node.value.strip()) >= SHORTEST:
            self.known.add(node.value.strip())


def _written(shown: str) -> str:
    if shown == REDACTED:
        return shown
    import yaml

    return str(yaml.safe_dump(shown, default_style='"', width=float("inf"), allow_unicode=True)).strip()


def _content_start(text: str, token: Any) -> int:
    """Where a scalar begins; behind the first line of a block, in which there may be a comment."""
    start: int = token.start_mark.index
    if token.style in ("|", ">"):
        return text.index("\n", start) if "\n" in text[start:] else len(text)
    return start


def _secret_comments(text: str, scalars: list[Span], known: set[str]) -> Iterator[Span]:
    """Comments that hold a secret, or the one before it the name of one: all that follow each other go together."""
    block: list[re.Match[str]] = []
    for comment in _comments(text, scalars):
        if block and (
            text[block[-1].end() : comment.start()].strip() or text.count("\n", block[-1].end(), comment.start()) > 1
        ):
            yield from _spans_of(block, known)
            block = []
        block.append(comment)
    yield from _spans_of(block, known)


def _comments(text: str, scalars: list[Span]) -> Iterator[re.Match[str]]:
    waiting = iter(scalars)
    start, end = next(waiting, (len(text), len(text)))
    for comment in _COMMENT.finditer(text):
        while end <= comment.start():
            start, end = next(waiting, (len(text), len(text) + 1))
        if not start <= comment.start() < end:
            yield comment


def _spans_of(block: list[re.Match[str]], known: set[str]) -> Iterator[Span]:
    contents = [comment[0].lstrip("#").strip() for comment in block]
    whole = " ".join(contents)
    alone = [_holds_secret(content, known) for content in contents]
    if "PRIVATE KEY-----" in whole or (not any(alone) and _holds_secret(whole, known)):
        alone = [True] * len(block)
    yield from (comment.span() for comment, secret in zip(block, alone, strict=True) if secret)


def _holds_secret(comment: str, known: set[str]) -> bool:
    return (
        bool(secrets(comment, prose=True))
        or redacted_line(comment) != comment
        or any(secret in comment for secret in itertools.islice(known, MOST_SOUGHT))
    )
