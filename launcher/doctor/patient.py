"""The launcher's end of an agent that also finds out about its host and its network (`launcher.on_host.examiner`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.cluster.cluster import NOTHING
from launcher.hosts import events
from launcher.hosts.agent_messages import (
    COUNT,
    EXIT_CODE,
    LONGEST_PIECE,
    LONGEST_TAIL,
    REASON,
    SIGNAL,
    Check,
    Message,
    nothing_or,
    real,
    truth,
)
from launcher.hosts.one_host import HostConnection
from launcher.hosts.transport import AGENT

EXAMINER = (*AGENT, "examiner")
"""The packages that make up its agent."""


def _examined(kind: str, fields: Mapping[str, Check], most: int = 0, spare: Mapping[str, object] = NOTHING) -> Message:
    return Message(lambda of, told, body: events.Examined(of.host, kind, told, body), fields, most, spare)


EXAMINED = {
    "gate_tried": _examined("gate_tried", REASON),
    "not_asked": _examined("not_asked", REASON),
    "said": _examined("said", {}, most=LONGEST_PIECE),
    "answered": _examined(
        "answered",
        {"in_time": truth, "code": nothing_or(EXIT_CODE), "signal": nothing_or(SIGNAL)},
        most=LONGEST_TAIL,
    ),
    "counting": _examined("counting", REASON),
    "measured": _examined(
        "measured",
        {**REASON, "bytes": COUNT, "rate": real, "round_trip": real, "retransmitted": COUNT},
        spare={"bytes": 0, "rate": 0.0, "round_trip": 0.0, "retransmitted": 0},
    ),
}
"""All that it tells beside what every agent does."""


class Patient(HostConnection):
    """One host that is examined. All answers are `Examined`."""

    more_messages = EXAMINED

    def ask(self, argv: Sequence[str], env: Mapping[str, str], workdir: str, seconds: float, said: bytes) -> None:
        """Run a program for so long at most, with `said` on its stdin.

        Answers: `not_asked`, or `said` as it comes and then `answered`.
        """
        head = {"do": "ask", "argv": list(argv), "env": dict(env), "cwd": workdir, "seconds": seconds}
        self._send(head, said)

    def say(self, said: bytes, *, last: bool = False) -> None:
        """More for the program's stdin."""
        self._send({"do": "say", "last": last}, said)

    def try_gate(self) -> None:
        """Find out whether its kernel can keep strangers off the workers' ports. Answer: `gate_tried`."""
        self._send({"do": "try_gate"})

    def count(self) -> None:
        """Let the ports that are held be sent to. Answer: `counting`."""
        self._send({"do": "count"})

    def measure(self, address: str, port: int, size: int, seconds: float) -> None:
        """Find out how fast bytes get to a port where they are counted. Answer: `measured`."""
        self._send({"do": "measure", "address": address, "port": port, "size": size, "seconds": seconds})
