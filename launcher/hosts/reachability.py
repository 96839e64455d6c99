"""The proof that all other hosts reach a host at its address: who dials what, what the answers mean. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.cluster.cluster import Host
from launcher.cluster.spec import Task
from launcher.hosts.facts import HostFacts, candidates
from launcher.on_host.agent.messages import Target
from launcher.wording import listed

LOOPBACK = "127.0.0.1"
AN_ADDRESS = "write an IP address as the `address`"
"""What helps where a name does not."""


class Proof:
    """Tries the likeliest address of each host first, from all other hosts at once; the next one where that fails."""

    def __init__(
        self,
        hosts: Sequence[Host],
        facts: Mapping[str, HostFacts],
        ports: Mapping[str, Mapping[Task, int]],
        word: str,
    ) -> None:
        """Begin. `word`: what a host's ports answer with, before its name."""
        self._hosts = {host.name: host for host in hosts}
        self._ports = {name: next(iter(each.values())) for name, each in ports.items() if each}
        self._word = word
        self._left = {name: list(candidates(host, facts)) for name, host in self._hosts.items()}
        self._tried: dict[str, list[str]] = {name: [] for name in self._hosts}
        self.addresses: dict[str, str] = {}
        """Of each host that all others have reached."""
        self.failures: list[str] = [
            f"{name}: no address was found at which other hosts could reach it; write its `address`"
            for name, left in self._left.items()
            if not left
        ]

    def targets(self) -> dict[str, list[Target]]:
        """What each host has to dial next; empty: the proof is over."""
        asked: dict[str, list[Target]] = {}
        for name, left in self._left.items():
            if name in self.addresses or not left or name not in self._ports:
                continue
            target = Target(name, left[0], self._ports[name], f"{self._word} {name}")
            for other in self._hosts:
                asked.setdefault(other, []).append(target)
        return asked

    def _has_to_reach(self, dialler: str, name: str) -> bool:
        """A task may also connect to itself, and where from is noted; where it cannot, it may not need to."""
        return dialler != name or len(self._hosts[name].tasks) > 1

    def add(self, dialled: Mapping[str, Mapping[str, str]]) -> None:
        """The answers to `targets()`: for each host that dialled, by name of the other: empty, or why not."""
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
        """Who could not reach a host at an address, and why; return who does not know that name."""
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
        """`unresolving`: who does not know the name that the file has as its address, which is then the only one."""
        if unresolving:
            remedy = f"{AN_ADDRESS} of {name}, or put the name into DNS or into /etc/hosts of {listed(unresolving)}"
        else:
            remedy = "open that port in the firewall (`ports` keeps to a range of them), or write another `address`"
            if self._hosts[name].address is None:
                remedy += f" for {name}"
        self.failures.append("\n  ".join([*self._tried[name], f"What to do: {remedy}."]))
