"""What a program said last: where a peer ended first, TensorFlow may tell of that behind the program's own words."""

from __future__ import annotations

import re

_TENSORFLOWS = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:|[DIWEF]\d{4} \d\d:|WARNING: All log|Additional GRPC error|:UNKNOWN:|$"
)


def last_line(output: str) -> str:
    """The last line of an output that is the program's own."""
    return next(line for line in reversed(output.splitlines()) if not _TENSORFLOWS.match(line))
