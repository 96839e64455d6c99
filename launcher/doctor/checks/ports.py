"""Which host reaches which: every port of every worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

from launcher.doctor.examination import Dial, Examination, failures
from launcher.doctor.findings import ERROR, NOTE, Finding
from launcher.hosts.reachability import AN_ADDRESS
from launcher.on_host.agent.resolving import CANNOT_RESOLVE
from launcher.wording import listed

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


def findings(examination: Examination) -> Iterator[Finding]:
    fixed = {host.name for host in examination.cluster.hosts if host.address}
    all_failed = failures(examination.dialled)
    for each in examination.reached:
        if each.complaint is not None:
            continue  # it was lost meanwhile: that it could not be dialled then says nothing of its address
        address = examination.addresses.get(each.name)
        if address is None:
            yield NO_ADDRESS.on(each.name, "no address was found at which other hosts could reach it")
            continue
        failed = all_failed.get((each.name, address), {})
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
    """A note for each address that seemed likelier than the one that all reach."""
    for address in takewhile(lambda address: address != taken, dict.fromkeys(dial.address for dial in dialled)):
        who = list(dict.fromkeys(dial.dialler for dial, why in dialled.items() if why and dial.address == address))
        what = f"{listed(who)} cannot reach it at {address}; {taken} is taken, which all reach"
        yield PASSED_OVER.on(host, what)
