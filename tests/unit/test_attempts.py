"""A run, attempt after attempt, with hosts that are made up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from launcher.cluster.cluster import RestartLimits
from launcher.cluster.host_list import local_cluster
from launcher.cluster.spec import ClusterSpec, Task
from launcher.errors import HostError
from launcher.hosts import events
from launcher.hosts.inbox import Inbox
from launcher.run import attempts
from launcher.run.attempt.actions import AttemptResult
from launcher.run.failure import restart_policy
from launcher.run.host_contexts import Names
from launcher.run.request import Request
from launcher.run.run import Run
from launcher.run_directory.directory import RunDirectory

LOST = events.HostLost("localhost", "its agent was killed")


class FirstReadyHosts:
    """Hosts that get ready once, and never again."""

    beat_interval = 60.0
    facts: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.losses: dict[str, str] = {}
        self.called_again = 0

    def beat(self) -> None:
        """No lease ends here."""

    def prepare(self, _timeout: float, _observe: Callable[[events.Event], None]) -> ClusterSpec:
        if self.called_again:
            raise HostError("it does not come back")
        return ClusterSpec({Task("worker", 0): "127.0.0.1:2222"})

    def reconnect_lost(self, _observe: Callable[[events.Event], None]) -> None:
        self.called_again += 1
        self.losses.clear()

    def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.HostLost):
            self.losses[event.host] = event.complaint


class Observer:
    """What is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str, *, error: bool = False) -> None:
        self.said.append(text)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return self.say if name in ("complain", "say_once") else lambda *_, **__: None


def test_a_host_that_is_lost_in_the_backoff_is_called_again_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inbox: Inbox = SimpleQueue()
    hosts, observer = FirstReadyHosts(), Observer()
    cluster = local_cluster(1)._replace(restart=RestartLimits(max_restarts=3, backoff=math.inf))
    directory = RunDirectory.create(tmp_path, "local", datetime.now().astimezone())
    run = Run(cluster, Request(), directory, Names.of(directory.name), datetime.now().astimezone())

    def fail_and_lose_the_host(*_: object) -> AttemptResult:
        inbox.put(LOST)
        return AttemptResult(succeeded=False, endings=(), interrupted=None)

    monkeypatch.setattr(restart_policy, "LONGEST_DELAY", math.inf)
    monkeypatch.setattr(attempts, "supervise", fail_and_lose_the_host)
    tried = attempts.Attempts(run, hosts, inbox, observer)  # type: ignore[arg-type]
    with pytest.raises(HostError, match="it does not come back"):
        tried.until_the_last()

    assert hosts.called_again == 1
    assert "localhost was lost: its agent was killed; it is called again for the restart" in observer.said
