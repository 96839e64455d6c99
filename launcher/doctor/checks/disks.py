"""Where runs are written: may we, is there room, is it one disk for all?"""

from __future__ import annotations

from collections.abc import Iterator

from launcher.doctor.answers import Room
from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import Finding, Severity
from launcher.on_host.agent.own_directory import WOULD_RUN
from launcher.wording import listed, size

LITTLE = 1e9
"""Bytes: less than a few checkpoints of a usual model."""
FULL = "No space left"


def findings(examination: Examination) -> Iterator[Finding]:
    """Of these."""
    for each in examination.reached:
        yield from (_unsafe(each, why) for why in each.answers.unsafe or ())
        if each.answers.room is not None and each.answers.unwritable is not None:
            yield from _of_one(each, each.answers.room, each.answers.unwritable)
    yield from _shared(examination)


def _of_one(each: HostExamination, room: Room, unwritable: str) -> Iterator[Finding]:
    remedy = "--run-dir DIR names another one" if each.host.is_local else "name another `run_dir` for it"
    left = f"{size(room.free)} of {size(room.total)} are free"
    if FULL in unwritable or "quota" in unwritable:
        yield Finding(
            Severity.ERROR,
            "disk_full",
            (each.name,),
            f"the disk of the output directory is full: {unwritable}; {left}",
            "logs and checkpoints could not be written",
            f"make room below {room.there}, or {remedy}",
            "run_dir",
        )
    elif unwritable:
        yield Finding(
            Severity.ERROR,
            "unwritable",
            (each.name,),
            f"the output directory {room.root} cannot be written: {unwritable}; "
            f"{room.there} belongs to {room.owner} (mode {room.mode}), and the workers run as {room.user}",
            "logs and checkpoints could not be written",
            f"make it writable for {room.user}, or {remedy}",
            "run_dir",
        )
    elif room.free < LITTLE:
        yield Finding(
            Severity.WARNING,
            "disk_low",
            (each.name,),
            f"little room for {room.root}: {left}",
            "logs and checkpoints may fill it during the training",
            f"make room, or {remedy}",
            "run_dir",
        )


def _unsafe(each: HostExamination, why: str) -> Finding:
    """A host behind ssh takes no run there; on this machine the user is only warned."""
    what, _, remedy = why.partition(f"{WOULD_RUN}; ")
    return Finding(
        Severity.WARNING if each.host.is_local else Severity.ERROR,
        "unsafe",
        (each.name,),
        what,
        "somebody could exchange the files of a run, which its workers load"
        if each.host.is_local
        else "workers would run that, so nothing would be started",
        remedy,
        "workdir" if "`workdir`" in remedy else "run_dir",
    )


def _shared(examination: Examination) -> Iterator[Finding]:
    """Seen by all, by some, or by nobody else."""
    asked = [each.name for each in examination.reached if each.answers.seen is not None]
    groups = {tuple(sorted((name, *examination.shared.get(name, ())))) for name in asked}
    for group in sorted(groups):
        if len(group) > 1:
            yield _note("shared", group, f"{listed(group)} share the disk of the output directory", "")
    if len(asked) > 1 and len(groups) > 1:
        yield _note(
            "not_shared",
            tuple(asked),
            "the output directories of the hosts are not all on one disk",
            "nothing for checkpoints: before a restart the launcher brings the chief's newest one to every host. For "
            "other files that all workers need, name a `run_dir` on a disk that all share",
        )


def _note(check: str, hosts: tuple[str, ...], what: str, remedy: str) -> Finding:
    why = (
        "a worker finds there what another one has written"
        if check == "shared"
        else ("a worker finds there only what workers of its own host have written")
    )
    return Finding(Severity.NOTE, check, hosts, what, why, remedy, "run_dir", names_hosts=True)
