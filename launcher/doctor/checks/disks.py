"""Where runs are written: may we, is there room, is it one disk for all?"""

from __future__ import annotations

from collections.abc import Iterator

from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import ERROR, NOTE, WARNING, Finding
from launcher.on_host.agent.own_directory import WOULD_RUN
from launcher.on_host.probe.answers import DiskRoom
from launcher.wording import listed, size

NOT_WRITTEN = "logs and checkpoints could not be written"
FULL = Finding(ERROR, "disk_full", "run_dir").because(NOT_WRITTEN)
UNWRITABLE = Finding(ERROR, "unwritable", "run_dir").because(NOT_WRITTEN)
LOW = Finding(WARNING, "disk_low", "run_dir").because("logs and checkpoints may fill it during the training")
UNSAFE = Finding(ERROR, "unsafe", "run_dir").because("workers would run that, so nothing would be started")
SHARED = Finding(NOTE, "shared", "run_dir", names_hosts=True).because(
    "a worker finds there what another one has written"
)
NOT_SHARED = Finding(NOTE, "not_shared", "run_dir", names_hosts=True).because(
    "a worker finds there only what workers of its own host have written",
    "nothing for checkpoints: before a restart the launcher brings the chief's newest one to every host. For "
    "other files that all workers need, name a `run_dir` on a disk that all share",
)
LITTLE = 1e9
"""Bytes: less than a few checkpoints of a usual model."""


def findings(examination: Examination) -> Iterator[Finding]:
    for each in examination.reached:
        yield from (_unsafe(each, why) for why in each.answers.unsafe or ())
        if each.answers.room is not None and each.answers.unwritable is not None:
            yield from _written(each, each.answers.room, each.answers.unwritable)
    yield from _shared(examination)


def _written(each: HostExamination, room: DiskRoom, unwritable: str) -> Iterator[Finding]:
    another = "--run-dir DIR names another one" if each.host.is_local else "name another `run_dir` for it"
    left = f"{size(room.free)} of {size(room.total)} are free"
    if "No space left" in unwritable or "quota" in unwritable:
        what = f"the disk of the output directory is full: {unwritable}; {left}"
        yield FULL.on(each.name, what, remedy=f"make room below {room.there}, or {another}")
    elif unwritable:
        what = (
            f"the output directory {room.root} cannot be written: {unwritable}; "
            f"{room.there} belongs to {room.owner} (mode {room.mode}), and the workers run as {room.user}"
        )
        yield UNWRITABLE.on(each.name, what, remedy=f"make it writable for {room.user}, or {another}")
    elif room.free < LITTLE:
        yield LOW.on(each.name, f"little room for {room.root}: {left}", remedy=f"make room, or {another}")


def _unsafe(each: HostExamination, why: str) -> Finding:
    """A host behind ssh takes no run there; on this machine the user is only warned."""
    what, _, remedy = why.partition(f"{WOULD_RUN}; ")
    found = UNSAFE.on(each.name, what, remedy=remedy, key="workdir" if "`workdir`" in remedy else "run_dir")
    if not each.host.is_local:
        return found
    return found.on(
        each.name, what, severity=WARNING, why="somebody could exchange the files of a run, which its workers load"
    )


def _shared(examination: Examination) -> Iterator[Finding]:
    """Which hosts share the disk, as far as they see each other's files."""
    seen = {each.name: each.answers.seen for each in examination.reached if each.answers.seen is not None}
    groups = {name: tuple(sorted((name, *others))) for name, others in seen.items()}
    for group in sorted(set(groups.values())):
        if len(group) > 1:
            yield SHARED.on(group, f"{listed(group)} share the disk of the output directory")
    if len(set(groups.values())) > 1:
        yield NOT_SHARED.on(tuple(groups), "the output directories of the hosts are not all on one disk")
