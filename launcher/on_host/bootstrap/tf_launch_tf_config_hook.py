"""Gives TensorFlow the launcher's `TF_CONFIG` if the program has set another cluster there.

Many programs set the addresses of the machines that they were written for. The variable is corrected only when
TensorFlow reads it: not when the program sets it, which may be for a child that it is about to start, and not when the
program reads it, which must find what it has set.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

VARIABLE = "TF_CONFIG"


def after_import(resolver: ModuleType, watch: Any) -> None:
    """Correct the variable whenever TensorFlow is about to read it in this process, but not in forks of it.

    All versions of TensorFlow 2 read it with `_load_tf_config`
    (`tensorflow/python/distribute/cluster_resolver/tfconfig_cluster_resolver.py`).
    """
    load = getattr(resolver, "_load_tf_config", None)
    if load is None:
        return
    correction = Correction(watch.given["LAUNCH_TF_CONFIG"])

    def load_tf_config() -> Any:
        correction.apply()
        return load()

    resolver._load_tf_config = load_tf_config  # type: ignore[attr-defined]


class Correction:
    """Restores the launcher's value, in the process that the launcher started."""

    def __init__(self, launchers: str) -> None:
        self.launchers = launchers
        self.pid = os.getpid()
        self.has_warned = False

    def apply(self) -> None:
        """Replace a value for other machines by the launcher's; say so the first time."""
        own = os.environ.get(VARIABLE)
        if os.getpid() != self.pid or not is_foreign(own, self.launchers):
            return
        os.environ[VARIABLE] = self.launchers
        if not self.has_warned and sys.stderr is not None:
            line = f"the program sets TF_CONFIG itself ({described(own)}): launch's is used instead"
            print(f"tf-launch: {line}; --keep-tf-config leaves the program's", file=sys.stderr, flush=True)
        self.has_warned = True


def is_foreign(own: str | None, launchers: str) -> bool:
    """Whether a value names addresses, but none of the launcher's. False if it is missing, broken, or only adapted."""
    named, run = list(addresses(own)), list(addresses(launchers))
    return bool(named) and not any(address in run for address in named)


def addresses(tf_config: str | None) -> Iterator[str]:
    """All addresses of a cluster; none if TensorFlow would not accept the value."""
    try:
        jobs = json.loads(tf_config or "{}").get("cluster", {}).values()
        for tasks in jobs:
            yield from tasks.values() if isinstance(tasks, dict) else tasks if isinstance(tasks, list) else ()
    except (ValueError, TypeError, AttributeError):
        return


def described(own: str | None) -> str:
    """`worker 0 of localhost:12345, ...`, as far as the value says."""
    first, *others = addresses(own)
    task = json.loads(own or "{}").get("task")
    who = f"{task.get('type')} {task.get('index')} of " if isinstance(task, dict) else ""
    return f"{who}{first}{', ...' if others else ''}"
