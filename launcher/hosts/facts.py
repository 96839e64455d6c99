"""What agents report about their hosts, and what follows from that for all hosts together. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from launcher.cluster.cluster import NOTHING, Host
from launcher.cluster.spec import is_loopback
from launcher.on_host.agent.messages import Ready
from launcher.wording import duration

VARIABLES = (
    *("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy"),
    *("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"),
    *("PYTHONPATH", "LAUNCH_KERAS_FIX", "LAUNCH_TF_CONFIG"),
)
"""The only environment variables that a host is asked for: a plan depends on them, and others may be secrets."""
MOST_SKEW = 60.0
"""Seconds that clocks may differ without a warning."""


class HostFacts(NamedTuple):
    """One host, as its agent sees it."""

    hostname: str = ""
    python: str = ""
    """The version of the Python that runs the agent."""
    cpus: int = 1
    home: str = "~"
    machine: str = ""
    """Equal for two hosts only if they are the same machine."""
    addresses: Sequence[str] = ()
    """Of its interfaces, IPv4 first, without those that only the host itself can dial."""
    client: str = ""
    """Where the ssh connection comes from, as the host sees it; empty without ssh."""
    server: str = ""
    """The host's own address on that connection."""
    environment: Mapping[str, str] = NOTHING
    ahead: float = 0.0
    """Seconds that its clock is ahead of the launcher's."""

    @classmethod
    def of(cls, ready: Ready, now: float) -> HostFacts:
        """The facts in an agent's message that arrived at `now`, in seconds since 1970."""
        client, _, server = [*ready.ssh_connection.split()[:3], "", "", ""][:3]
        own = ready.hostname, ready.python, ready.cpus, ready.home, ready.machine, ready.addresses
        return cls(*own, client, server, ready.environment, ahead=ready.time - now)


def candidates(host: Host, facts: Mapping[str, HostFacts]) -> tuple[str, ...]:
    """The addresses at which other hosts may reach a host, the likeliest first; all have to be tried.

    An `address` in the cluster file is the only one. Otherwise it is the address that ssh connected to or, for this
    machine, the one that the other hosts see its ssh connections come from; then the addresses of its interfaces.
    """
    if host.address:
        return (host.address,)
    own = facts[host.name]
    seen = [each.client for name, each in facts.items() if name != host.name] if host.is_local else [own.server]
    dialled = [address for address in (*seen, *own.addresses) if address and not is_loopback(address)]
    return tuple(dict.fromkeys(address for address in dialled if not host.is_local or address in own.addresses))


def same_machines(facts: Mapping[str, HostFacts]) -> list[tuple[str, str]]:
    """Pairs of host names that are the same machine."""
    first: dict[str, str] = {}
    pairs = []
    for name, each in facts.items():
        if each.machine and first.setdefault(each.machine, name) != name:
            pairs.append((first[each.machine], name))
    return pairs


def skewed_clocks(facts: Mapping[str, HostFacts]) -> dict[str, float]:
    """Hosts whose clocks differ from the launcher's by more than `MOST_SKEW`, and how many seconds they are ahead."""
    return {name: each.ahead for name, each in facts.items() if abs(each.ahead) > MOST_SKEW}


def start_warnings(
    facts: Mapping[str, HostFacts], addresses: Mapping[str, str], open_hosts: Iterable[str]
) -> list[str]:
    """Warnings about the hosts of a run, a line each.

    Args:
        facts: of each host.
        addresses: where each is dialled.
        open_hosts: those whose workers accept connections from anywhere.
    """
    clocks = [f"{host}: {clock_is_off(ahead)}" for host, ahead in skewed_clocks(facts).items()]
    public = public_addresses({host: [addresses[host]] for host in open_hosts})
    return clocks + [
        f"{host}: {address} is a public address, and TensorFlow's server asks nobody for a password: let a firewall "
        "keep others off the workers' ports"
        for host, (address,) in public.items()
    ]


def clock_is_off(ahead: float) -> str:
    """A sentence about a clock that is so many seconds ahead (negative: behind)."""
    return f"its clock is {duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this machine's"


def public_addresses(addresses: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Each host's addresses that anybody on the internet may dial, for the hosts that have any."""
    found = {name: [address for address in each if _is_public(address)] for name, each in addresses.items()}
    return {name: each for name, each in found.items() if each}


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.strip("[]")).is_global
    except ValueError:
        return False  # a name
