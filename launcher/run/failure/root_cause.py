"""Which of the ends of a gang's members brought the others down. Pure.

A member that dies makes its peers fail within a second, often with a longer traceback than its own. So failures are
ranked by kind and not by arrival, and a worker that only lost contact with a peer is never named while another is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from launcher.cluster.defaults import LOCALHOST
from launcher.cluster.spec import chief_of, has_coordinator
from launcher.console.collateral import LEADER, started_twice
from launcher.run.failure.failure import Failure, Kind

_REPEAT = "every worker must make the same number of steps: repeat the data, or share it out evenly"
_SERVE = "a task that serves others ends with server.join(): the launcher ends it when the training is done"


def root_cause(failures: Sequence[Failure]) -> Failure | None:
    """The failure that brought the gang down; None: none did.

    Args:
        failures: every end of the attempt in order of arrival, also the good ones and those of our making: a worker
            that the launcher stopped may be the one whose traceback tells.
    """
    first = min(failures, key=lambda each: each.kind, default=None)
    if first is not None and first.is_conclusive:
        return first
    complaint = next((each for each in failures if each.kind is Kind.COLLATERAL), None)
    if complaint is None:
        return None
    return _left_early(failures, complaint) or _fallen_silent(failures, complaint)


def _left_early(failures: Sequence[Failure], complaint: Failure) -> Failure | None:
    """A worker that ended well before the first complaint about a peer: it was still needed."""
    left = [each for each in failures[: failures.index(complaint)] if each.kind is Kind.LEFT]
    named = next((each for each in left if each.task == complaint.accused), next(iter(left), None))
    if named is None:
        return None
    tasks = {each.task for each in failures if each.task is not None}
    serves = named.task is not None and (named.task.type == "ps" or has_coordinator(tasks))
    return named._replace(
        summary="the others were not done, and failed without it", remedy=_SERVE if serves else _REPEAT
    )


def _fallen_silent(failures: Sequence[Failure], first: Failure) -> Failure:
    """Complaints alone lead to the member that made none: it was frozen or cut off, and ended by us."""
    tasks = {each.task: each for each in failures if each.task is not None}
    seen: list[Failure] = []
    suspect: Failure | None = first
    while suspect is not None and suspect.kind is Kind.COLLATERAL and suspect not in seen:
        seen.append(suspect)
        accused = suspect.accused
        leader = chief_of(tasks) if accused == LEADER and accused not in tasks else accused
        suspect = tasks.get(leader) if leader else None
    if suspect is None or suspect.kind is not Kind.STOPPED or started_twice(first.summary):
        return first
    return suspect._replace(
        kind=Kind.STALLED,
        summary="it stopped answering the other workers, and was then ended by the launcher",
        remedy=f"look at {suspect.host}: a stopped or swapped-out process, too much load{_cut_network(suspect.host)}",
    )


def _cut_network(host: str) -> str:
    return "" if host == LOCALHOST else ", or a cut network"
