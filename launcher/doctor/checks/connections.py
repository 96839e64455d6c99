"""Which hosts can be used, and which reach each other: ssh, ports, addresses, missing answers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

from launcher.doctor.examination import Dial, Examination, HostExamination
from launcher.doctor.findings import ERROR, NOTE, WARNING, Finding
from launcher.hosts.facts import same_machines
from launcher.hosts.reachability import AN_ADDRESS
from launcher.on_host.agent.resolving import CANNOT_RESOLVE
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
"""What each host is asked, as a finding calls it."""
OF_THE_WORKERS_PYTHON = ("python", "packages", "program", "tensorflow")
WHY = "the workers exchange their gradients over these ports: the training would wait without end"
NO_ADDRESS = Finding(ERROR, "address", "address").because(WHY, "write its `address`")
NOT_REACHED = Finding(ERROR, "reach", "address", names_hosts=True).because(WHY)
PASSED_OVER = Finding(NOTE, "passed_over", "address").because("the way that is taken may not be the fastest one")
OPEN = (
    "open {ports} in the firewall of {host} and between the two (`ports` keeps to a range), or write another `address`"
)
WRONG = "is that an address of {host}? It has {own}. Write the right `address`; if it is, "
NAME = (
    AN_ADDRESS
    + " of {host} (it has {own}), or put the name into DNS or into /etc/hosts of {who}: TensorFlow asks there"
)


def unusable(examination: Examination) -> Iterator[Finding]:
    """Hosts on which no worker can be started, and questions that were not answered."""
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


def addresses(examination: Examination) -> Iterator[Finding]:
    """Ports of workers that other hosts cannot reach."""
    fixed = {host.name for host in examination.cluster.hosts if host.address}
    unreached = examination.unreached
    for each in examination.reached:
        if each.complaint is not None:
            continue  # the host was lost meanwhile: failed dials then say nothing about its address
        address = examination.addresses.get(each.name)
        if address is None:
            yield NO_ADDRESS.on(each.name, "no address was found at which other hosts could reach it")
            continue
        failed = unreached.get(each.name, {})
        dialled = {dial: why for dial, why in examination.dialled.items() if dial.host == each.name}
        own = listed(each.facts.addresses) if each.facts and each.facts.addresses else "none"
        others = {dial.dialler for dial in dialled} - {each.name}
        yield from _not_reached(each.name, address, failed, own, others)
        if not failed and each.name not in fixed:
            yield from _passed_over(dialled, each.name, address)


def _not_reached(host: str, address: str, failed: Mapping[Dial, str], own: str, others: set[str]) -> Iterator[Finding]:
    by_reason: dict[str, list[Dial]] = {}
    for dial, why in failed.items():
        by_reason.setdefault(why, []).append(dial)
    nobody_reaches = {dial.dialler for dial in failed if dial.dialler != host} == others
    for why, dials in by_reason.items():
        who = list(dict.fromkeys(dial.dialler for dial in dials))
        numbers = [str(number) for number in sorted({dial.port for dial in dials})]
        ports = f"port{'s' if len(numbers) > 1 else ''} {listed(numbers)}"
        what = f"{listed(who)} cannot reach {host} at {address}, {ports}: {why}"
        doubt = WRONG.format(host=host, own=own) if nobody_reaches or "else" in why else ""
        remedy = doubt + OPEN.format(ports=ports, host=host)
        if why.startswith(CANNOT_RESOLVE):
            what, remedy = f"{listed(who)} {why}", NAME.format(host=host, own=own, who=listed(who))
        yield NOT_REACHED.on((*who, *([host] if host not in who else [])), what, remedy=remedy)


def _passed_over(dialled: Mapping[Dial, str], host: str, taken: str) -> Iterator[Finding]:
    """A note for each address that seemed likelier than the one that all hosts reach."""
    for address in takewhile(lambda address: address != taken, dict.fromkeys(dial.address for dial in dialled)):
        who = list(dict.fromkeys(dial.dialler for dial, why in dialled.items() if why and dial.address == address))
        what = f"{listed(who)} cannot reach it at {address}; {taken} is taken, which all reach"
        yield PASSED_OVER.on(host, what)
