"""What the package says on stderr."""

from __future__ import annotations

import functools
import sys

PREFIX = "tf-launch:"
_announcements: list[str] = []


def say(line: str) -> None:
    print(PREFIX, line, file=sys.stderr, flush=True)


@functools.cache
def say_once(line: str) -> None:
    say(line)


def announce_later(line: str) -> None:
    """Say the line as soon as `announce` is called; a program that never trains under the strategy is told nothing."""
    _announcements.append(line)


def announce() -> None:
    """Called by each function of ours that does something else than Keras's own."""
    if _announcements:
        say(_announcements.pop())
