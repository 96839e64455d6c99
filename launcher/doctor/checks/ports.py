"""Which host reaches which: every port of every worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

from launcher.doctor.examination import Dial, Examination
from launcher.doctor.findings import Finding, Severity
from launcher.doctor.reach import failures
from launcher.hosts.reachability import AN_ADDRESS
from launcher.on_host.agent.resolving import CANNOT_RESOLVE
from launcher.wording import listed

WHY = "the workers exchange their gradients over these ports: the training would wait without end"
OPEN = (
    "open {ports} in the firewall of {host} and between the two (`ports` keeps to a range), or write another `address`"
)
WRONG = "is that an address of {host}? It has {own}. Write the right `address`"
NAME = (
    AN_ADDRESS
    + " of {host} (it has {own}), or put the name into DNS or into /etc/hosts of {who}: TensorFlow asks there"
)


def findings(examination: Examination) -> Iterator[Finding]:
    """Of these."""
    fixed = {host.name for host in examination.cluster.hosts if host.address}
    all_failed = failures(examination.dialled)
    by_host: dict[str, dict[Dial, str]] = {}
    for dial, why in examination.dialled.items():
        by_host.setdefault(dial.host, {})[dial] = why
    for each in examination.reached:
        if each.complaint is not None:
            continue  # lost meanwhile: whoever dialled it then says nothing of its address
        address = examination.addresses.get(each.name)
        if address is None:
            yield Finding(
                Severity.ERROR,
                "address",
                (each.name,),
                "no address was found at which other hosts could reach it",
                WHY,
                "write its `address`",
                "address",
            )
            continue
        failed, dialled = all_failed.get((each.name, address), {}), by_host.get(each.name, {})
        own = listed(each.facts.addresses) if each.facts and each.facts.addresses else "none"
        yield from _not_reached(each.name, address, failed, own, {dial.dialler for dial in dialled} - {each.name})
        if not failed and each.name not in fixed:
            yield from _another_address(dialled, each.name, address)


def _not_reached(
    host: str, address: str, failed: Mapping[Dial, str], own: str, diallers: set[str]
) -> Iterator[Finding]:
    by_reason: dict[str, list[Dial]] = {}
    for dial, why in failed.items():
        by_reason.setdefault(why, []).append(dial)
    nobody_reaches = {dial.dialler for dial in failed if dial.dialler != host} == diallers
    for why, dials in by_reason.items():
        who = list(dict.fromkeys(dial.dialler for dial in dials))
        ports = _ports(dials)
        what = f"{listed(who)} cannot reach {host} at {address}, {ports}: {why}"
        remedy = WRONG.format(host=host, own=own) + "; if it is, " if nobody_reaches or "else" in why else ""
        remedy += OPEN.format(ports=ports, host=host)
        if why.startswith(CANNOT_RESOLVE):
            what, remedy = f"{listed(who)} {why}", NAME.format(host=host, own=own, who=listed(who))
        yield Finding(
            Severity.ERROR,
            "reach",
            (*who, *([host] if host not in who else [])),
            what,
            WHY,
            remedy,
            "address",
            names_hosts=True,
        )


def _ports(dials: list[Dial]) -> str:
    numbers = sorted({dial.port for dial in dials})
    return f"port {numbers[0]}" if len(numbers) == 1 else f"ports {listed([str(number) for number in numbers])}"


def _another_address(dialled: Mapping[Dial, str], host: str, taken: str) -> Iterator[Finding]:
    likelier = takewhile(lambda address: address != taken, dict.fromkeys(dial.address for dial in dialled))
    for address in likelier:
        who = list(dict.fromkeys(dial.dialler for dial, why in dialled.items() if why and dial.address == address))
        yield Finding(
            Severity.NOTE,
            "passed_over",
            (host,),
            f"{listed(who)} cannot reach it at {address}; {taken} is taken, which all reach",
            "the way that is taken may not be the fastest one",
            "",
            "address",
        )
