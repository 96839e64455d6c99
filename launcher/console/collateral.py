"""Whether a failure is collateral: caused only by the loss of a peer, and of which one. Pure.

Most patterns were recorded from real runs (tests/unit/failure_tails). "coordination service ... error" and "failed to
connect to all addresses" come from public issue threads; no recording has them yet.
"""

from __future__ import annotations

from launcher.cluster.spec import Task
from launcher.lazy_pattern import lazy_pattern

LEADER = Task("chief", 0)
"""Stands for the task that runs the coordination service, whatever its name is in this cluster."""

_GRPC_UNAVAILABLE_OR_LATE = r"grpc_status:(?:14|4)\b"
_LOST_CONTACT = lazy_pattern(
    r"Collective ops is aborted by: (?:[\w ]{0,100}: ){0,9}"
    r"(?:Socket closed|Connection reset|recvmsg:|failed to connect|Deadline Exceeded|Error reported from /job:)"
    rf"|Additional GRPC error information from remote target /job:.{{0,300}}\n.{{0,2000}}{_GRPC_UNAVAILABLE_OR_LATE}"
    r"|stopped sending heartbeats|/tensorflow\.CoordinationService/"
    r"|[Cc]oordination service.{0,300}(?:error|shut ?down|not connected)"
    r"|failed to connect to all addresses.{0,1000}/job:|different incarnation|Incarnation ID mismatch"
)
_STARTED_TWICE = lazy_pattern(
    r"/job:(\w+)/replica:\d+/task:(\d{1,9}) (?:unexpectedly tried to connect with a different incarnation"
    r"|Heartbeat: Incarnation ID mismatch)"
)
"""TensorFlow thinks that a task was restarted. The launcher never restarts one task of a gang alone, so two processes
claim to be the same task."""
_LOST_LEADER = lazy_pattern(r"RPC: /tensorflow\.CoordinationService/")
_PEERS = (
    lazy_pattern(r"stopped sending heartbeats\):\s*/job:(\w+)/replica:\d+/task:(\d{1,9})\b"),
    lazy_pattern(r"remote target /job:(\w+)/replica:\d+/task:(\d{1,9})\b"),
    lazy_pattern(r"Error reported from /job:(\w+)/(?:replica:\d+/)?task:(\d{1,9})\b"),
)


def is_collateral(text: str) -> bool:
    """Whether this is TensorFlow's complaint about a lost peer or coordination service."""
    return bool(_LOST_CONTACT().search(text))


def accused(text: str) -> Task | None:
    """The peer that the text blames; `LEADER` for the coordination service; None if it names no peer."""
    for pattern in _PEERS:
        if found := pattern().search(text):
            return Task(found[1], int(found[2]))
    return LEADER if _LOST_LEADER().search(text) else None


def started_twice(text: str) -> Task | None:
    """The task that TensorFlow has seen two processes of; None if the text reports no such task."""
    found = _STARTED_TWICE().search(text)
    return Task(found[1], int(found[2])) if found else None
