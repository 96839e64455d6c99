"""How fast the network is, and what that means for a step of the training."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.doctor.answers import NetworkCard
from launcher.doctor.checks.odd_ones import odd_ones
from launcher.doctor.examination import Examination
from launcher.doctor.exchange import ring_seconds
from launcher.doctor.findings import Finding, Severity
from launcher.wording import duration, rate, size

SLOW = 0.25
"""The part of what another link does, or the card itself promises, below which a link is worth a look."""
MEGABIT = 1e6 / 8
"""Bytes."""
FASTEST = 2_500
"""Mbit/s; whether a card does more than that, one connection of a Python program on a busy host cannot show."""


def findings(examination: Examination) -> Iterator[Finding]:
    """Of these."""
    measured = {pair: speed for pair, speed in examination.speeds.items() if not speed.reason}
    for (sender, receiver), speed in examination.speeds.items():
        if speed.reason:
            yield Finding(
                Severity.WARNING,
                "not_measured",
                (sender, receiver),
                f"from {sender} to {receiver}: the speed could not be measured: {speed.reason}",
                "the connection came about before; it may not last",
                "",
                names_hosts=True,
            )
    fastest = max((speed.rate for speed in measured.values()), default=0.0)
    for (sender, receiver), speed in measured.items():
        cards = [card_of(examination, name) for name in (sender, receiver)]
        promised = min(card.speed for card in cards)
        if speed.rate < SLOW * fastest:
            yield _slow(sender, receiver, f"{rate(speed.rate)}, while the fastest link does {rate(fastest)}")
        elif promised <= FASTEST and speed.rate < SLOW * promised * MEGABIT:
            yield _slow(sender, receiver, f"{rate(speed.rate)}, while their cards promise {rate(promised * MEGABIT)}")
    yield from _cards(examination)
    yield from _prediction(examination)


def card_of(examination: Examination, host: str) -> NetworkCard:
    """The one that has the address at which a host is dialled."""
    answers = next(each.answers for each in examination.hosts if each.name == host)
    return (answers.network_cards or {}).get(examination.addresses.get(host, ""), NetworkCard())


def _slow(sender: str, receiver: str, what: str) -> Finding:
    return Finding(
        Severity.WARNING,
        "slow_link",
        (sender, receiver),
        f"from {sender} to {receiver}: {what}",
        "every step waits for the slowest link",
        "look for other traffic, a bad cable or switch (`ethtool` tells what a card does), or name another `address`",
        "address",
        names_hosts=True,
    )


def _cards(examination: Examination) -> Iterator[Finding]:
    cards = {name: card_of(examination, name) for name in examination.addresses}
    usual_size, odd_sizes = odd_ones({name: card.mtu for name, card in cards.items() if card.mtu})
    for host, mtu in odd_sizes.items():
        yield _odd_card(
            "mtu",
            host,
            f"its network card takes packets of up to {mtu} bytes, elsewhere {usual_size}",
            "large packets may vanish on the way, so that connections come about and then hang",
            "set the same MTU on all hosts (ip link set CARD mtu N)",
        )
    usual_speed, odd_speeds = odd_ones({name: card.speed for name, card in cards.items() if card.speed})
    for host, speed in odd_speeds.items():
        if speed < (usual_speed or 0):
            yield _odd_card(
                "card_speed",
                host,
                f"its network card runs at {rate(speed * MEGABIT)}, elsewhere at {rate((usual_speed or 0) * MEGABIT)}",
                "every step waits for the slowest link",
                "try another cable, or another port of the switch; `ethtool` tells what both ends agreed on",
            )


def _odd_card(check: str, host: str, what: str, why: str, remedy: str) -> Finding:
    return Finding(Severity.WARNING, check, (host,), what, why, remedy)


def _prediction(examination: Examination) -> Iterator[Finding]:
    workers = sum(task.type in ("chief", "worker") for host in examination.cluster.hosts for task in host.tasks)
    hosts = [each.name for each in examination.hosts]
    seconds = ring_seconds(examination.gradients, workers, hosts, examination.speeds)
    if seconds is None or workers < 2:
        return
    slowest = min(examination.speeds, key=lambda pair: examination.speeds[pair].rate)
    speed, gradients = examination.speeds[slowest], examination.gradients
    yield Finding(
        Severity.NOTE,
        "network",
        tuple(hosts),
        f"the slowest link, from {slowest[0]} to {slowest[1]}, does {rate(speed.rate)} with a round trip of "
        f"{duration(speed.round_trip)}. To share {size(gradients.size)} of gradients ({gradients.source}) among "
        f"{workers} workers takes about {duration(seconds)} a step on this network (an estimate, for a ring)",
        "no step is shorter than that",
        "",
        names_hosts=True,
    )
