"""The lines that a worker's log gets, on stderr."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

PREFIX = "tf-launch:"


def saying_once(line: str) -> Callable[[], None]:
    return functools.cache(functools.partial(say, line))


@functools.cache
def say_once(line: str) -> None:
    say(line)


def say(line: str) -> None:
    print(PREFIX, line, file=sys.stderr, flush=True)
