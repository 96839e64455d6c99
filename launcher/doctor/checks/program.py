"""The program that the workers run: there, and the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from launcher.doctor.checks.odd_ones import odd_ones
from launcher.doctor.examination import Examination
from launcher.doctor.findings import Finding, Severity
from launcher.wording import listed

NOT_THERE = "nothing"


def findings(examination: Examination) -> Iterator[Finding]:
    """Of these."""
    programs = {each.name: each.answers.program for each in examination.reached if each.answers.program}
    workdirs = {each.name: each.plan.workdir for each in examination.reached if each.plan}
    for host, program in programs.items():
        if program.reason:
            yield Finding(
                Severity.ERROR,
                "program",
                (host,),
                f"the program is not there: {program.reason} (in {workdirs[host]})",
                "its workers could not be started",
                "put it there, or name the `workdir` that it is in",
                "workdir",
            )
    files = {host: program.files for host, program in programs.items() if program.files}
    commands = {each.name: examination.cluster.command_of(each.plan.task) for each in examination.reached if each.plan}
    for command in examination.cluster.commands:
        yield from _different({host: found for host, found in files.items() if commands.get(host) == command})


def _different(files: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    names = sorted({name for each in files.values() for name in each})
    differing: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for name in names:
        usual, odd = odd_ones({host: each.get(name, NOT_THERE) for host, each in files.items()})
        for host, digest in odd.items():
            others = missing if NOT_THERE in (digest, usual) else differing
            others.setdefault(host, []).append(name)
    for host, found in differing.items():
        yield _finding("different_program", host, f"other content than elsewhere: {listed(found)}")
    for host, found in missing.items():
        yield _finding("different_files", host, f"files that are not on all hosts: {listed(found)}")


def _finding(check: str, host: str, what: str) -> Finding:
    return Finding(
        Severity.ERROR if check == "different_program" else Severity.WARNING,
        check,
        (host,),
        what,
        "workers that run different programs hang in collective operations, or train something else without a word",
        "bring the same files to all hosts",
        "workdir",
    )
