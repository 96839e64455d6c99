"""The proof that all other hosts reach a host at its address: who dials what, what the answers mean. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.cluster import Task
from launcher.cluster_file import Host
from launcher.host_facts import HostFacts, candidates

LOOPBACK = "127.0.0.1"


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

    def targets(self) -> dict[str, list[dict[str, Any]]]:
        """What each host has to dial next; empty: the proof is over."""
        asked: dict[str, list[dict[str, Any]]] = {}
        for name, left in self._left.items():
            if name in self.addresses or not left or name not in self._ports:
                continue
            target = {"id": name, "address": left[0], "port": self._ports[name], "word": f"{self._word} {name}"}
            for other in self._hosts.values():
                if other.name != name or len(other.tasks) > 1:
                    asked.setdefault(other.name, []).append(target)
        return asked

    def take(self, dialled: Mapping[str, Mapping[str, str]]) -> None:
        """The answers to `targets()`: for each host that dialled, by name of the other: empty, or why not."""
        for name, left in self._left.items():
            results = {dialler: each[name] for dialler, each in dialled.items() if name in each}
            if not results:
                continue
            failed = {dialler: why for dialler, why in results.items() if why}
            if not failed:
                self.addresses[name] = left[0]
                continue
            address = left.pop(0)
            self._tried[name] += [
                f"{dialler} cannot reach {name} at {address}, port {self._ports[name]}: {why}"
                for dialler, why in failed.items()
            ]
            if not left:
                self._fail(name)

    def _fail(self, name: str) -> None:
        fixed = self._hosts[name].address is not None
        remedy = "open that port in the firewall (`ports` keeps to a range of them), or write another `address`"
        if not fixed:
            remedy += f" for {name}"
        self.failures.append("\n  ".join([*self._tried[name], f"What to do: {remedy}."]))
