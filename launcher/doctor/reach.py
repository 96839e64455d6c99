"""Every worker's port, from every other host, at every address that may be the right one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from launcher.cluster.cluster import Host
from launcher.cluster.spec import Task
from launcher.doctor.examination import Dial
from launcher.hosts.facts import HostFacts, candidates
from launcher.hosts.reachability import LOOPBACK

Ports = Mapping[str, Mapping[Task, int]]


def possible_addresses(hosts: Iterable[Host], facts: Mapping[str, HostFacts]) -> dict[str, tuple[str, ...]]:
    """Where each host that has answered may be dialled, the likeliest first."""
    hosts = tuple(hosts)
    if len(hosts) == 1:
        return {host.name: (host.address or LOOPBACK,) for host in hosts if host.name in facts}
    return {host.name: candidates(host, facts) for host in hosts if host.name in facts}


def dials(hosts: Iterable[Host], addresses: Mapping[str, tuple[str, ...]], ports: Ports) -> list[Dial]:
    """Every host dials all others; a host with several workers dials itself, too."""
    hosts = [host for host in hosts if host.name in addresses]
    return [
        Dial(dialler.name, host.name, address, task, port)
        for dialler in hosts
        for host in hosts
        if dialler.name != host.name or len(host.tasks) > 1
        for address in addresses[host.name]
        for task, port in ports.get(host.name, {}).items()
    ]


def failures(dialled: Mapping[Dial, str]) -> dict[tuple[str, str], dict[Dial, str]]:
    """Who did not reach which port, and why, by (host, address) of the one that was dialled."""
    found: dict[tuple[str, str], dict[Dial, str]] = {}
    for dial, why in dialled.items():
        if why:
            found.setdefault((dial.host, dial.address), {})[dial] = why
    return found


def chosen(dialled: Mapping[Dial, str], addresses: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """For each host the first address at which all others reach all ports; else the one that fails least."""
    failed = failures(dialled)
    return {
        host: min(possible, key=lambda address: len(failed.get((host, address), ())))
        for host, possible in addresses.items()
        if possible
    }
