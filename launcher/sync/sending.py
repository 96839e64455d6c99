"""All hosts that the project is sent to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cluster.cluster import Cluster, Host
from launcher.errors import HostError
from launcher.hosts import events
from launcher.hosts.all_hosts import SETTLE, Hosts, Observer, StopRequestedError
from launcher.hosts.one_host import BEATS_PER_LEASE, Inbox, receive
from launcher.sync.exchange import Exchange
from launcher.sync.project import read_project
from launcher.sync.rsync import Rsync, rsync_on_this_machine

if TYPE_CHECKING:  # not needed by a run without `sync`
    from launcher.sync.exchange import Exchange
    from launcher.sync.project import Project


class ProjectSync:
    """All hosts at once. It begins with each as soon as that is connected; `finish` waits for all of them."""

    def __init__(self, cluster: Cluster, hosts: Hosts, inbox: Inbox, say: Callable[[str], None]) -> None:
        """Nothing is done yet. `say` shows the user a line."""
        self._sync = cluster.sync
        self._waiting = {host.name: host for host in cluster.hosts if not host.is_local} if cluster.sync else {}
        self._hosts = hosts
        self._inbox = inbox
        self._say = say
        self._look = cluster.timeouts.lease / BEATS_PER_LEASE
        self._project: Project | None = None
        self._exchanges: dict[str, Exchange] = {}
        self._failures: dict[str, str] = {}

    def read_project(self, left_out: Iterable[Path]) -> None:
        """Find what there is to send; `left_out` stays here.

        Raises:
            UsageError: a part of the project cannot be sent.
        """
        if self._sync is not None and self._waiting:
            self._project = read_project(self._sync, left_out, self._hosts.beat)

    def take(self, event: events.Event) -> None:
        """See an event of the run; most have nothing to do with this."""
        match event:
            case events.HostReady(name) if name in self._waiting and self._project is not None:
                self._begin(self._waiting.pop(name), self._project)
            case events.Answer(name, message) if name in self._exchanges:
                self._proceed(self._exchanges[name], message)
            case events.HostLost(name) if name in self._unfinished():
                self._failures[name] = event.complaint

    def finish(self, observe: Observer) -> None:
        """Return once every host has the project. Every event of that time goes to `observe`, which gives it to `take`.

        Raises:
            HostError: a host cannot take it, or was lost.
            UsageError: a file can no longer be read here.
            StopRequestedError: a signal came first.
        """
        until: float | None = None
        while unfinished := self._unfinished():
            if self._failures:
                until = until or time.monotonic() + SETTLE
                if time.monotonic() >= until or unfinished <= self._failures.keys():
                    raise HostError("\n".join(self._failures.values()))
            busy = [exchange for exchange in self._exchanges.values() if exchange.busy]
            self._hosts.beat()
            event = receive(self._inbox, 0 if busy else self._look if until is None else until - time.monotonic())
            if event is not None:
                observe(event)
            if isinstance(event, events.Interrupted):
                raise StopRequestedError(event.signal)
            for exchange in busy:
                self._proceed(exchange)
        self._exchanges.clear()

    def close(self) -> None:
        """Stop what still runs on this machine."""
        for exchange in self._exchanges.values():
            exchange.close()

    def _unfinished(self) -> set[str]:
        return {*self._waiting, *(name for name, exchange in self._exchanges.items() if not exchange.over)}

    def _begin(self, host: Host, project: Project) -> None:
        def tell(message: object) -> None:
            self._inbox.put(events.Answer(host.name, message))

        ssh = self._hosts.ssh_words(host.name)
        rsync = Rsync(host.name, ssh, project, tell) if ssh and rsync_on_this_machine() else None
        ask = partial(self._hosts.send, host.name)
        assert host.workdir is not None  # the cluster file's reader sees to that
        exchange = self._exchanges[host.name] = Exchange(host.name, host.workdir, project, ask, self._say, rsync)
        self._proceed(exchange)

    def _proceed(self, exchange: Exchange, answer: object = None) -> None:
        if exchange.host in self._failures:
            return
        try:
            exchange.proceed(answer)
        except HostError as error:
            self._failures[exchange.host] = str(error)
