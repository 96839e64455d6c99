"""The launcher's end of an agent that also finds out about its host and its network (`launcher.examiner`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launcher import events
from launcher.host import HostConnection
from launcher.transport import AGENT

EXAMINER = (*AGENT, "examiner")
"""The packages that make up its agent."""
ANSWERS = frozenset({"not_asked", "said", "answered", "counting", "measured"})


class Patient(HostConnection):
    """One host that is examined. All answers are `Examined`."""

    def ask(self, argv: Sequence[str], env: Mapping[str, str], workdir: str, seconds: float, said: bytes) -> None:
        """Run a program for so long at most, with `said` on its stdin.

        Answers: `not_asked`, or `said` as it comes and then `answered`.
        """
        head = {"do": "ask", "argv": list(argv), "env": dict(env), "cwd": workdir, "seconds": seconds}
        self._send(head, said)

    def say(self, said: bytes, *, last: bool = False) -> None:
        """More for the program's stdin."""
        self._send({"do": "say", "last": last}, said)

    def count(self) -> None:
        """Let the ports that are held be sent to. Answer: `counting`."""
        self._send({"do": "count"})

    def measure(self, address: str, port: int, size: int, seconds: float) -> None:
        """Find out how fast bytes get to a port where they are counted. Answer: `measured`."""
        self._send({"do": "measure", "address": address, "port": port, "size": size, "seconds": seconds})

    def _event(self, head: dict[str, Any], body: bytes) -> events.Event | None:
        if head["event"] in ANSWERS:
            return events.Examined(self.name, head.pop("event"), head, body)
        return super()._event(head, body)
