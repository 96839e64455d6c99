"""`--dry-run`: the whole plan of the first attempt, for a person or a machine."""

from __future__ import annotations

import json
import shlex

from launcher.plan import AttemptPlan, TaskPlan


def as_json(plan: AttemptPlan) -> str:
    """The plan as one JSON object; secrets are redacted."""
    return json.dumps(plan.as_record(), indent=2)


def as_text(plan: AttemptPlan, width: int | None = None, color: bool = False) -> str:
    """The plan for a person, a block a task; secrets are redacted.

    Args:
        plan: what would be started.
        width: columns to fold at; None: the terminal's, or no folding where there is none.
        color: whether headings are emphasised.
    """
    import io

    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=width or 10_000, force_terminal=color, highlight=False, soft_wrap=width is None)
    for task in plan.tasks:
        console.print(f"{task.task}  on {task.host}  at {task.address}", style="bold", markup=False)
        for key, value in _lines(task):
            console.print(f"  {key:<8} {value}", markup=False)
    return out.getvalue()


def _lines(plan: TaskPlan) -> list[tuple[str, str]]:
    record = plan.as_record()
    env = [
        ("env" if not n else "", f"{key}={shlex.quote(value)}")
        for n, (key, value) in enumerate(sorted(record["env"].items()))
    ]
    return [
        ("command", shlex.join(plan.argv)),
        ("workdir", plan.workdir),
        ("log", plan.log),
        *env,
    ]
