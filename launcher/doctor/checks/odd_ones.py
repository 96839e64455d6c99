"""Hosts that differ from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TypeVar

Value = TypeVar("Value", bound=Hashable)


def odd_ones(values: Mapping[str, Value]) -> tuple[Value | None, dict[str, Value]]:
    """The value of most hosts (of the first one, where several are as frequent), and the hosts with another one."""
    if not values:
        return None, {}
    usual = Counter(values.values()).most_common(1)[0][0]
    return usual, {host: value for host, value in values.items() if value != usual}
