"""A cluster file as it may be written down: every character as it was given, but for secrets."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import yaml

from launcher.cluster.file.yaml_nodes import Node, Scalar, YamlList, YamlMap
from launcher.cluster.redaction.commands import redacted_line, redacted_words
from launcher.cluster.redaction.texts import REDACTED, Span, is_secret, redacted_text, secrets

COMMANDS = frozenset(["command", "per_task", "options"])
"""Keys whose values are command lines, wherever below them."""
IN_PLACE_OF_COMMENT = "# (not copied: this comment holds a secret)"
MOST_SOUGHT = 100
SHORTEST = 6
"""Characters of a secret that is recognised when a comment repeats it."""
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)


def redacted_copy(text: str, root: Node) -> str:
    """The text of a correct file with each secret replaced where it stands, and without the comments that hold one.

    It means the same, and an anchor stays where it was.
    """
    found = _Secrets()
    found.look_through(root)
    found.hide_repeated()
    edits = [
        (start, start + len(text[start:end].rstrip()), _written(shown)) for (start, end), shown in found.shown.items()
    ]
    contents = sorted((_content_start(text, span), span[1]) for span in found.spans)
    edits += [(start, end, IN_PLACE_OF_COMMENT) for start, end in _secret_comments(text, contents, found.known)]
    parts, last = [], 0
    for start, end, shown in sorted(edits):
        parts += [text[last:start], shown]
        last = end
    return "".join([*parts, text[last:]])


class _Secrets:
    """The values of a file that hold secrets, by what stands around them."""

    def __init__(self) -> None:
        self.shown: dict[Span, str] = {}
        """What is shown in place of such a value, by where that stands."""
        self.known: set[str] = set()
        """The values of which nothing is shown."""
        self.spans: set[Span] = set()
        """Of all values and keys: whatever looks like a comment in one of them is none."""
        self._values: dict[Span, Scalar] = {}

    def look_through(self, root: Node) -> None:
        """An alias counts once for each key that it stands below."""
        seen: set[tuple[int, str]] = set()
        waiting: list[tuple[Node, str]] = [(root, "")]
        while waiting:
            node, key = waiting.pop()
            if (id(node), key) in seen:
                continue
            seen.add((id(node), key))
            if isinstance(node, Scalar):
                self.spans.add(node.span)
                self._values[node.span] = node
                self._show(node, redacted_line(node.text) if key in COMMANDS else redacted_text(node.text))
            elif isinstance(node, YamlList):
                if key in COMMANDS:
                    self._look_at_words([item for item in node.items if isinstance(item, Scalar)])
                waiting += [(item, key) for item in node.items]
            else:
                if key == "env":
                    self._look_at_variables(node)
                self.spans.update(name.span for name, _ in node.entries.values())
                waiting += [
                    (value, key if key in ("env", "per_task") else name) for name, (_, value) in node.entries.items()
                ]

    def hide_repeated(self) -> None:
        """A value that is secret in one place is in all."""
        sought = list(itertools.islice(self.known, MOST_SOUGHT))
        for value in self._values.values():
            if any(secret in value.text for secret in sought):
                self._show(value, REDACTED)

    def _look_at_variables(self, env: YamlMap) -> None:
        for name, (_, value) in env.entries.items():
            if isinstance(value, Scalar) and is_secret(name, value.text):
                self._show(value, REDACTED)

    def _look_at_words(self, words: list[Scalar]) -> None:
        for word, shown in zip(words, redacted_words([word.text for word in words]), strict=True):
            self._show(word, shown)

    def _show(self, value: Scalar, shown: str) -> None:
        if shown == value.text:
            return
        earlier = self.shown.get(value.span, shown)
        # where it stands in several places that show different parts of it, nothing is shown
        self.shown[value.span] = shown if shown == earlier else REDACTED
        if shown == REDACTED and len(value.text.strip()) >= SHORTEST:
            self.known.add(value.text.strip())


def _written(shown: str) -> str:
    if shown == REDACTED:
        return shown
    return str(yaml.safe_dump(shown, default_style='"', width=float("inf"), allow_unicode=True)).strip()


def _content_start(text: str, span: Span) -> int:
    """Where a value begins; of a block, behind its first line, in which there may be a comment."""
    start, end = span
    if not text.startswith(("|", ">"), start, end):
        return start
    newline = text.find("\n", start)
    return newline if newline >= 0 else len(text)


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
