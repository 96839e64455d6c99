"""How fast the network is, what workers exchange over it in every step, and how long that takes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.cluster.plan import brings_training
from launcher.doctor.examination import Examination, Gradients
from launcher.doctor.findings import NOTE, WARNING, Finding, odd_ones
from launcher.on_host.probe.answers import NetworkCard, Speed
from launcher.wording import duration, rate, size

NOT_MEASURED = Finding(WARNING, "not_measured", names_hosts=True).because(
    "the connection came about before; it may not last"
)
SLOW = Finding(WARNING, "slow_link", "address", names_hosts=True).because(
    "every step waits for the slowest link",
    "look for other traffic, a bad cable or switch (`ethtool` tells what a card does), or name another `address`",
)
OTHER_PACKETS = Finding(WARNING, "mtu").because(
    "large packets may vanish on the way, so that connections come about and then hang",
    "set the same MTU on all hosts (ip link set CARD mtu N)",
)
SLOW_CARD = Finding(WARNING, "card_speed").because(
    "every step waits for the slowest link",
    "try another cable, or another port of the switch; `ethtool` tells what both ends agreed on",
)
PREDICTION = Finding(NOTE, "network", names_hosts=True).because("no step is shorter than that")
SLOW_PART = 0.25
"""Of the fastest link's speed, or of what the cards promise: a link with less is worth a look."""
MEGABIT = 1e6 / 8
"""Bytes."""
FASTEST = 2_500
"""Mbit/s. One connection of a Python program on a busy host cannot show whether a card does more."""
MEGABYTE = 1e6
SUPPOSED_MB = 100.0
DIGITS_CNN_BYTES = 160_554 * 4
"""The gradients of the model of `python -m training`: one float32 for each of its weights."""
MOST_HOSTS_IN_PAIRS = 8


def findings(examination: Examination) -> Iterator[Finding]:
    answers = {each.name: each.answers.network_cards or {} for each in examination.hosts}
    cards = {name: of_host.get(examination.addresses.get(name, ""), NetworkCard()) for name, of_host in answers.items()}
    fastest = max((speed.rate for speed in examination.speeds.values()), default=0.0)
    for (sender, receiver), speed in examination.speeds.items():
        link = f"from {sender} to {receiver}:"
        promised = min(cards[sender].speed, cards[receiver].speed)
        if speed.reason:
            what = f"{link} the speed could not be measured: {speed.reason}"
            yield NOT_MEASURED.on((sender, receiver), what)
        elif speed.rate < SLOW_PART * fastest:
            what = f"{link} {rate(speed.rate)}, while the fastest link does {rate(fastest)}"
            yield SLOW.on((sender, receiver), what)
        elif promised <= FASTEST and speed.rate < SLOW_PART * promised * MEGABIT:
            what = f"{link} {rate(speed.rate)}, while their cards promise {rate(promised * MEGABIT)}"
            yield SLOW.on((sender, receiver), what)
    usual, odd = odd_ones({name: card.mtu for name, card in cards.items() if card.mtu})
    for host, mtu in odd.items():
        yield OTHER_PACKETS.on(host, f"its network card takes packets of up to {mtu} bytes, elsewhere {usual}")
    usual, odd = odd_ones({name: card.speed for name, card in cards.items() if card.speed})
    for host, speed_of_card in odd.items():
        if usual is not None and speed_of_card < usual:
            here, elsewhere = rate(speed_of_card * MEGABIT), rate(usual * MEGABIT)
            yield SLOW_CARD.on(host, f"its network card runs at {here}, elsewhere at {elsewhere}")
    yield from _prediction(examination)


def _prediction(examination: Examination) -> Iterator[Finding]:
    seconds, gradients, workers = ring_seconds(examination), examination.gradients, examination.workers
    if seconds is None or workers < 2:
        return
    (sender, receiver), slowest = min(examination.speeds.items(), key=lambda each: each[1].rate)
    what = (
        f"the slowest link, from {sender} to {receiver}, does {rate(slowest.rate)} with a round trip of "
        f"{duration(slowest.round_trip)}. To share {size(gradients.size)} of gradients ({gradients.source}) among "
        f"{workers} workers takes about {duration(seconds)} a step on this network (an estimate, for a ring)"
    )
    yield PREDICTION.on(tuple(each.name for each in examination.hosts), what)


# ---- what the workers exchange
def gradients(commands: Sequence[Sequence[str]], megabytes: float | None) -> Gradients:
    """What the user says, what our own training program has, or else an example."""
    if megabytes is not None:
        return Gradients(megabytes * MEGABYTE, "--gradient-mb")
    if brings_training(*commands):
        return Gradients(DIGITS_CNN_BYTES, "the model of `python -m training`")
    return Gradients(SUPPOSED_MB * MEGABYTE, "an example; say yours with --gradient-mb: 4 bytes a weight")


def rounds(hosts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Who sends to whom, in rounds in which each host sends once and receives once.

    Each host sends to all others; if there are many, to the next one only, as in a ring.
    """
    count = len(hosts)
    steps = range(1, count if count <= MOST_HOSTS_IN_PAIRS else 2)
    return [[(host, hosts[(n + step) % count]) for n, host in enumerate(hosts)] for step in steps]


def ring_seconds(examination: Examination) -> float | None:
    """How long the network takes for a ring all-reduce; None if a link was not measured.

    Each of N workers sends 2 (N - 1) / N of the gradients to the next one, in 2 (N - 1) steps. All wait for the slowest
    link between two hosts, and a step takes half a round trip more.
    """
    hosts = [each.name for each in examination.hosts]
    links = [examination.speeds.get(pair, Speed()) for pair in rounds(hosts)[0]] if len(hosts) > 1 else []
    if not links or not all(link.rate for link in links):
        return None
    steps = 2 * (examination.workers - 1)
    sent = steps / examination.workers * examination.gradients.size
    return sent / min(link.rate for link in links) + steps * max(link.round_trip for link in links) / 2
