"""What could not be found out: a host that hangs tells by that, too."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import Finding, Severity
from launcher.wording import listed

PARTS = {
    "python": "Python",
    "packages": "packages",
    "program": "the program",
    "surroundings": "environment and limits",
    "network_cards": "network cards",
    "gpus": "GPUs",
    "room": "room on the disk",
    "unsafe": "whether others can put something else where runs go",
    "unwritable": "whether the output directory can be written",
    "tensorflow": "whether TensorFlow can be imported",
}
"""What is told, in this order; each part as soon as it is known."""
OF_THE_WORKERS_PYTHON = ("python", "packages", "program", "tensorflow")


def findings(examination: Examination) -> Iterator[Finding]:
    """Of these."""
    for each in examination.reached:
        if each.silence and each.complaint is None:
            missing = [PARTS[part] for part in _missing(each, examination.imports)]
            yield Finding(
                Severity.ERROR if missing else Severity.WARNING,
                "silence",
                (each.name,),
                f"it did not tell {listed(missing) if missing else 'all that it was asked'}: {each.silence}",
                "what hangs or breaks here would do so in a run, too; the first of these is where to look",
                "look there: `df`, `mount` (a dead network disk?), `nvidia-smi`, and `dmesg`",
            )
        for part, why in each.answers.trouble:
            yield Finding(
                Severity.WARNING,
                "trouble",
                (each.name,),
                f"{PARTS.get(part, part)} could not be found out: {why}",
                "it has not been checked",
                "",
            )


def _missing(each: HostExamination, imports: bool) -> list[str]:
    not_asked = {*(OF_THE_WORKERS_PYTHON if each.refusal else ()), *(() if imports else ("tensorflow",))}
    failed = {part for part, _ in each.answers.trouble}
    return [part for part in PARTS if part not in not_asked | failed and getattr(each.answers, part) is None]
