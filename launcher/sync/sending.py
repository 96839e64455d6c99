"""All hosts that the project is sent to."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from launcher.cluster.cluster import Cluster, Host
from launcher.errors import HostError, LaunchError, UsageError
from launcher.hosts import events
from launcher.hosts.all_hosts import SETTLE, Hosts
from launcher.hosts.attending import Observer, attend_until
from launcher.hosts.inbox import Inbox
from launcher.sync.exchange import Exchange, StoppedError
from launcher.sync.project import Project, read_project
from launcher.sync.rsync import Rsync, rsync_on_this_machine


class ProjectOver(NamedTuple):
    """Nothing more is done about the project on a host."""

    trouble: LaunchError | None
    """Why it is not there."""


class ProjectSync:
    """All hosts at once. It begins with each as soon as that is connected; `finish` waits for all of them."""

    def __init__(self, cluster: Cluster, hosts: Hosts, inbox: Inbox, say: Callable[[str], None]) -> None:
        """Nothing is done yet. `say` shows the user a line."""
        self._sync = cluster.sync
        self._waiting = {host.name: host for host in cluster.hosts if not host.is_local} if cluster.sync else {}
        self._hosts = hosts
        self._inbox = inbox
        self._say = say
        self._project: Project | None = None
        self._exchanges: dict[str, Exchange] = {}
        self._under_way: set[str] = set()
        self._failures: dict[str, str] = {}
        self._give_up_at = math.inf
        """Once a host has failed, others get a moment to fail as well."""

    def read_project(self, left_out: Iterable[Path]) -> None:
        """Find what there is to send; `left_out` stays here.

        Raises:
            UsageError: a part of the project cannot be sent.
        """
        if self._sync is not None and self._waiting:
            self._project = read_project(self._sync, left_out, self._hosts.beat)

    def on_event(self, event: events.Event) -> None:
        """Handle an event of the run; most do not concern the project.

        Raises:
            UsageError: a file can no longer be read here.
        """
        match event:
            case events.HostReady(name) if name in self._waiting and self._project is not None:
                self._begin(self._waiting.pop(name), self._project)
            case events.Answer(name, ProjectOver(trouble)):
                self._thread_over(name, trouble)
            case events.Answer(name, message) if name in self._under_way:
                self._exchanges[name].hear(message)
            case events.HostLost(name) if name in self._unfinished:
                self._fail(name, event.complaint)

    def _thread_over(self, host: str, trouble: LaunchError | None) -> None:
        self._under_way.discard(host)
        if isinstance(trouble, UsageError):
            raise trouble
        if trouble is not None:
            self._fail(host, str(trouble))

    def finish(self, observe: Observer) -> None:
        """Return once every host has the project. Every event of that time goes to `observe`, which gives it to `see`.

        Raises:
            HostError: a host cannot take it, or was lost.
            UsageError: a file can no longer be read here.
            StopRequestedError: a signal came first.
        """
        for _ in attend_until(self._hosts, self._inbox, self._is_over, lambda: self._give_up_at, observe):
            pass
        if self._failures:
            raise HostError(*self._failures.values())

    def _is_over(self) -> bool:
        return self._unfinished <= self._failures.keys()

    def _fail(self, host: str, why: str) -> None:
        self._failures.setdefault(host, why)
        self._give_up_at = min(self._give_up_at, time.monotonic() + SETTLE)

    def close(self) -> None:
        for exchange in self._exchanges.values():
            exchange.stop()

    @property
    def _unfinished(self) -> set[str]:
        return {*self._waiting, *self._under_way}

    def _begin(self, host: Host, project: Project) -> None:
        ssh = self._hosts.ssh_words(host.name)
        rsync = Rsync(host.name, ssh, project.directory) if ssh and rsync_on_this_machine() else None
        ask = partial(self._hosts.send, host.name)
        assert host.workdir is not None  # the cluster file's reader sees to that
        exchange = self._exchanges[host.name] = Exchange(host.name, host.workdir, project, ask, self._say, rsync)
        self._under_way.add(host.name)
        threading.Thread(
            target=self._bring, args=(host.name, exchange), name=f"project to {host.name}", daemon=True
        ).start()

    def _bring(self, host: str, exchange: Exchange) -> None:
        """In a thread of its own: a slow disk or link never makes a sign of life wait."""
        trouble: LaunchError | None = HostError(f"{host}: sending the project broke off")
        try:
            exchange.bring()
            trouble = None
        except LaunchError as error:
            trouble = error
        except StoppedError:
            pass
        finally:
            self._inbox.put(events.Answer(host, ProjectOver(trouble)))
