"""What stands in braces in a command or an environment value, and differs from task to task. Pure.

Only these names count, and only as `{name}`. Any other text in braces is the program's own and stays as it is: JSON,
an awk program, `{index:02d}`, and `${host}`, which is a shell's variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from launcher.cluster.spec import SERVICE_TYPES, ClusterSpec, Task

MEANINGS = {
    "index": "the task's index within its type",
    "rank": "its number among all tasks: the chief, then workers, ps and evaluator",
    "type": "its type: chief, worker, ps or evaluator",
    "workers": "how many chief and worker tasks there are",
    "address": "its address:port, as the others dial it",
    "chief_address": "that of the chief (worker 0, where there is none)",
    "host": "its host, as in the cluster file",
    "run_dir": "the run's directory on that host",
}
"""Each name, and what takes its place."""
_NAMES = "|".join(MEANINGS)
_PLACEHOLDER = rf"(?P<shell>\$\{{+(?:{_NAMES})\}}+)|\{{(?P<escaped>\{{(?:{_NAMES})\}})\}}|\{{(?P<name>{_NAMES})\}}"
"""Compiled by whoever needs it first: most commands have no braces at all."""


def values_of(task: Task, spec: ClusterSpec, host: str, run_dir: str) -> dict[str, str]:
    """What each name stands for in one task."""
    tasks = spec.tasks
    training = [each for each in tasks if each.type not in SERVICE_TYPES]
    return {
        "index": str(task.index),
        "rank": str(tasks.index(task)),
        "type": task.type,
        "workers": str(len(training)),
        "address": spec.addresses[task],
        "chief_address": spec.addresses[spec.chief],
        "host": host,
        "run_dir": run_dir,
    }


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with `{name}` replaced; `{{name}}` becomes `{name}`."""
    return re.sub(_PLACEHOLDER, lambda found: found["shell"] or found["escaped"] or values[found["name"]], text)


def kept(text: str) -> str:
    """The text so written that `filled` gives it back as it is."""
    return re.sub(_PLACEHOLDER, lambda found: found["shell"] or f"{{{found[0]}}}", text)


def any_in(words: Iterable[str]) -> bool:
    """Whether one of the words has a placeholder, so that it may differ from task to task."""
    return any("{" in word and re.search(_PLACEHOLDER, word) for word in words)
