"""What the workers exchange in every step, and how long a network takes for that. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from launcher.cluster.plan import brings_training
from launcher.doctor.examination import Examination, Gradients
from launcher.on_host.probe.answers import Speed

MEGABYTE = 1e6
SUPPOSED_MB = 100.0
DIGITS_CNN_BYTES = 160_554 * 4
"""The gradients of the model of `python -m training`: one float32 for each of its weights."""
BYTES = 64 * MEGABYTE
SECONDS = 1.0
"""What all measurements together may take of a host's time and send from it."""
MOST_HOSTS_IN_PAIRS = 8


def gradients(commands: Sequence[Sequence[str]], megabytes: float | None) -> Gradients:
    """What the user says, what our own training program has, or an example."""
    if megabytes is not None:
        return Gradients(megabytes * MEGABYTE, "--gradient-mb")
    if brings_training(*commands):
        return Gradients(DIGITS_CNN_BYTES, "the model of `python -m training`")
    return Gradients(SUPPOSED_MB * MEGABYTE, "an example; say yours with --gradient-mb: 4 bytes a weight")


def rounds(hosts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Who sends to whom, in rounds in which each host sends once and receives once.

    Every host to every other one; with many hosts, each to the next one only, as in a ring.
    """
    count = len(hosts)
    steps = range(1, count if count <= MOST_HOSTS_IN_PAIRS else 2)
    return [[(host, hosts[(n + step) % count]) for n, host in enumerate(hosts)] for step in steps]


def ring_seconds(examination: Examination) -> float | None:
    """How long a ring all-reduce takes on the network alone; None where that cannot be told.

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
