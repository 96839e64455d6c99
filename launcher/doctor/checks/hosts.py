"""Which hosts can be used at all: ssh, the same machine twice, ports for the workers, questions without an answer."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import ERROR, WARNING, Finding
from launcher.hosts.facts import same_machines
from launcher.wording import listed

CONNECTION = Finding(ERROR, "connection", "host").because(
    "no worker can be started there, and nothing else could be found out about it",
    "see what `ssh {host} true` says, and the log of sshd there",
)
NO_PORTS = Finding(ERROR, "ports", "ports").because(
    "each worker listens at a port of its own",
    "end what has them (`ss -ltnp` there tells), or change `ports`",
)
SAME_MACHINE = Finding(ERROR, "same_machine", "host").because(
    "its cores, GPUs and disk would be shared by workers that do not know of each other",
    "list it once, with all of its workers",
)
SILENCE = Finding(ERROR, "silence").because(
    "what hangs or breaks here would do so in a run, too; the first of these is where to look",
    "look there: `df`, `mount` (a dead network disk?), `nvidia-smi`, and `dmesg`",
)
TROUBLE = Finding(WARNING, "trouble").because("it has not been checked")
PARTS = {
    "python": "Python",
    "packages": "packages",
    "program": "the program",
    "surroundings": "environment and limits",
    "gate": "whether its kernel can keep strangers off the workers' ports",
    "network_cards": "network cards",
    "gpus": "GPUs",
    "room": "room on the disk",
    "unsafe": "whether others can put something else where runs go",
    "unwritable": "whether the output directory can be written",
    "tensorflow": "whether TensorFlow can be imported",
}
"""What a host tells of itself."""
OF_THE_WORKERS_PYTHON = ("python", "packages", "program", "tensorflow")


def findings(examination: Examination) -> Iterator[Finding]:
    for each in examination.hosts:
        if each.complaint is not None:
            remedy = "" if each.host.is_local else CONNECTION.remedy.format(host=each.name)
            yield CONNECTION.on(each.name, each.complaint.reason, remedy=each.complaint.remedy or remedy)
        elif each.no_ports:
            yield NO_PORTS.on(each.name, f"no ports for its workers: {each.no_ports}")
    for pair in same_machines({each.name: each.facts for each in examination.hosts if each.facts}):
        yield SAME_MACHINE.on(pair, "these are the same machine under two names")
    for each in examination.reached:
        if each.silence and each.complaint is None:
            missing = [PARTS[part] for part in _missing(each, examination.imports)]
            what = f"it did not tell {listed(missing) if missing else 'all that it was asked'}: {each.silence}"
            yield SILENCE.on(each.name, what, severity=ERROR if missing else WARNING)
        for part, why in each.answers.trouble:
            yield TROUBLE.on(each.name, f"{PARTS.get(part, part)} could not be found out: {why}")


def _missing(each: HostExamination, imports: bool) -> list[str]:
    not_asked = {*(OF_THE_WORKERS_PYTHON if each.refusal else ()), *(() if imports else ("tensorflow",))}
    failed = {part for part, _ in each.answers.trouble}
    return [part for part in PARTS if part not in not_asked | failed and getattr(each.answers, part) is None]
