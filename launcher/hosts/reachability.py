"""Proves that all other hosts reach each host at its address: who dials what, and what the answers mean. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.cluster.cluster import Host
from launcher.cluster.spec import Task
from launcher.hosts.facts import HostFacts, candidates
from launcher.on_host.agent.messages import Target
from launcher.wording import listed

LOOPBACK = "127.0.0.1"
AN_ADDRESS = "write an IP address as the `address`"
"""The remedy where a name does not resolve."""


class Proof:
    """Has all hosts dial the likeliest address of each host; where one cannot reach it, the next address."""

    def __init__(
        self,
        hosts: Sequence[Host],
        facts: Mapping[str, HostFacts],
        ports: Mapping[str, Mapping[Task, int]],
        word: str,
    ) -> None:
        """Nothing has been dialled yet. `word`: with the host's name, what its ports prove to know."""
        self._hosts = {host.name: host for host in hosts}
        self._ports = {name: next(iter(each.values())) for name, each in ports.items() if each}
        self._word = word
        self._left = {name: list(candidates(host, facts)) for name, host in self._hosts.items()}
        self._tried: dict[str, list[str]] = {name: [] for name in self._hosts}
        self.addresses: dict[str, str] = {}
        """The proven address of each host that all others have reached."""
        self.failures: list[str] = [
            f"{name}: no address was found at which other hosts could reach it; write its `address`"
            for name, left in self._left.items()
            if not left
        ]

    def targets(self) -> dict[str, list[Target]]:
        """What each host has to dial next; empty once the proof is complete."""
        asked: dict[str, list[Target]] = {}
        for name, left in self._left.items():
            if name in self.addresses or not left or name not in self._ports:
                continue
            target = Target(name, left[0], self._ports[name], f"{self._word} {name}")
            for other in self._hosts:
                asked.setdefault(other, []).append(target)
        return asked

    def _has_to_reach(self, dialler: str, name: str) -> bool:
        """Whether a failure counts.

        A host dials itself, too, so that its gate learns which of its own addresses such connections come from. That
        may fail if the host has a single task, which needs no connection to itself.
        """
        return dialler != name or len(self._hosts[name].tasks) > 1

    def add_results(self, dialled: Mapping[str, Mapping[str, str]]) -> None:
        """Add the answers to `targets()`: for each host that dialled, by name of the other, empty or why it failed."""
        for name, left in self._left.items():
            results = {dialler: each[name] for dialler, each in dialled.items() if name in each}
            if not results:
                continue
            failed = {dialler: why for dialler, why in results.items() if why and self._has_to_reach(dialler, name)}
            if not failed:
                self.addresses[name] = left[0]
                continue
            address = left.pop(0)
            unresolving = self._note(name, address, failed)
            if not left:
                self._fail(name, unresolving)

    def _note(self, name: str, address: str, failed: Mapping[str, str]) -> list[str]:
        """Remember who could not reach a host at an address, and why; return those who could not resolve the name."""
        from launcher.on_host.agent.resolving import CANNOT_RESOLVE  # with it comes `socket`: 3 ms

        unresolving = [dialler for dialler, why in failed.items() if why.startswith(CANNOT_RESOLVE)]
        self._tried[name] += [
            f"{dialler} {why}"
            if dialler in unresolving
            else f"{dialler} cannot reach {name} at {address}, port {self._ports[name]}: {why}"
            for dialler, why in failed.items()
        ]
        return unresolving

    def _fail(self, name: str, unresolving: list[str]) -> None:
        """Add a failure with its remedy. `unresolving`: hosts that cannot resolve the `address` of the cluster file."""
        if unresolving:
            remedy = f"{AN_ADDRESS} of {name}, or put the name into DNS or into /etc/hosts of {listed(unresolving)}"
        else:
            remedy = "open that port in the firewall (`ports` keeps to a range of them), or write another `address`"
            if self._hosts[name].address is None:
                remedy += f" for {name}"
        self.failures.append("\n  ".join([*self._tried[name], f"What to do: {remedy}."]))
