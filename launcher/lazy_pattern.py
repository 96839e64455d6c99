"""Regular expressions that are compiled when they are first used: a run that goes well needs few, and starts sooner."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import AnyStr


def lazy_pattern(text: AnyStr, flags: int = 0) -> Callable[[], re.Pattern[AnyStr]]:
    """The function that gives the expression, compiled by its first call."""
    return cache(partial(re.compile, text, flags))
