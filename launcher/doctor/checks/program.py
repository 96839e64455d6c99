"""The program that the workers run: there, and the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from launcher.doctor.examination import Examination
from launcher.doctor.findings import ERROR, WARNING, Finding, odd_ones
from launcher.wording import listed

NOT_THERE = Finding(ERROR, "program", "workdir").because(
    "its workers could not be started",
    "put it there, or name the `workdir` that it is in",
)
DIFFERENT = Finding(ERROR, "different_program", "workdir").because(
    "workers that run different programs hang in collective operations, or train something else without a word",
    "bring the same files to all hosts",
)
NOTHING = "nothing"


def findings(examination: Examination) -> Iterator[Finding]:
    files: dict[tuple[str, ...], dict[str, Mapping[str, str]]] = {}
    for each in examination.reached:
        program = each.answers.program
        if program is None or each.plan is None:
            continue
        if program.reason:
            yield NOT_THERE.on(each.name, f"the program is not there: {program.reason} (in {each.plan.workdir})")
        elif program.files:
            command = tuple(examination.cluster.command_of(each.plan.task))
            files.setdefault(command, {})[each.name] = program.files
    for of_hosts in files.values():
        yield from _different(of_hosts)


def _different(files: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    differing: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for name in sorted({name for each in files.values() for name in each}):
        usual, odd = odd_ones({host: each.get(name, NOTHING) for host, each in files.items()})
        for host, digest in odd.items():
            others = missing if NOTHING in (digest, usual) else differing
            others.setdefault(host, []).append(name)
    for host, found in differing.items():
        yield DIFFERENT.on(host, f"other content than elsewhere: {listed(found)}")
    for host, found in missing.items():
        what = f"files that are not on all hosts: {listed(found)}"
        yield DIFFERENT.on(host, what, severity=WARNING, check="different_files")
