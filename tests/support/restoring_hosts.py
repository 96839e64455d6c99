"""Hosts to restore: real agents of this machine, each with an output directory of its own, or with one for all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue

from launcher.cluster.defaults import LEASE, LOCALHOST
from launcher.gathering.gathering import Gathering
from launcher.hosts import events
from launcher.hosts.access import Access
from launcher.hosts.connection import Connection
from launcher.hosts.inbox import Inbox, receive
from launcher.hosts.transport import agent_argv
from launcher.on_host.agent.messages import (
    BeginDelivery,
    Command,
    DeliverPiece,
    DropDelivery,
    FilesArrived,
    Hello,
    PlaceDelivery,
)
from launcher.restoring.restoring import Restoring
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.state import RunHost
from support.gathering_host import INDEX_END, SHARD, contents
from support.launching import PATIENCE


class RestoringHosts:
    """`gpu-0` has the chief, unless this machine has."""

    def __init__(
        self, directory: Path, count: int = 2, *, local_chief: bool = False, shared: bool = False, interval: float = 0
    ) -> None:
        self.run = RunDirectory(directory / "run")
        self.run.path.mkdir(mode=0o700)
        self.here = self.run.make_chief()
        self.said: list[str] = []
        self.delivered: list[tuple[str, type[Command]]] = []
        """Host and kind of what was told to agents that receive."""
        self.on_delivery: Callable[[str, type[Command]], object] = lambda _host, _kind: None
        self.on_piece: Callable[[], object] = lambda: None
        """Called before a piece that an agent has sent is acknowledged; until it returns little more is sent."""
        self._heard = threading.Condition()
        self._inbox: Inbox = SimpleQueue()
        self.hosts = [
            RunHost(f"gpu-{n}", (f"worker-{n + local_chief}",), str(root), str(root / "output"))
            for n in range(count)
            for root in [directory / ("shared" if shared else f"gpu-{n}")]
        ]
        for host in self.hosts:
            Path(host.output_dir).mkdir(parents=True, exist_ok=True)
        self.all = [RunHost(LOCALHOST, ("worker-0",), str(self.run.path), str(self.here))] if local_chief else []
        self.all += self.hosts
        self._connections = {host.name: self._connect(host.name) for host in self.hosts}
        self.gathering = Gathering(
            self.run, ["."], self._ask, self._say, self._one_is_over, refuse=self._refuse, interval=interval
        )
        self.gathering.begin(self.all, lambda _name: False)
        self._forwarder = threading.Thread(target=self._forward)
        self._forwarder.start()

    # ---- the agents
    def _connect(self, name: str) -> Connection:
        connection = Connection(name, (), Access(name, agent_argv(name)), self._inbox, threading.Semaphore())
        connection.send(Hello(LEASE, []))
        return connection

    def close(self) -> None:
        """End the agents, and all that talks to them."""
        self.gathering.finish()
        self.gathering.give_up()
        for connection in self._connections.values():
            connection.close()
        self._inbox.put(events.GatheringEnded())
        self._forwarder.join()

    def cut(self, number: int) -> None:
        """The link to a host breaks at once."""
        self._connections[f"gpu-{number}"].give_up("the link is cut")

    def _ask(self, host: str, command: Command) -> None:
        if isinstance(command, BeginDelivery | DeliverPiece | PlaceDelivery | DropDelivery):
            self._deliver(host, command)
            return
        if isinstance(command, FilesArrived):
            self.on_piece()
        self._connections[host].send(command)

    def _refuse(self, host: str, why: str) -> None:
        self._connections[host].give_up(why)

    def _deliver(self, host: str, command: Command) -> None:
        self.delivered.append((host, type(command)))
        self.on_delivery(host, type(command))
        self._connections[host].send(command)

    def _say(self, text: str, *, error: bool = False) -> None:
        self.said.append(text)

    def _forward(self) -> None:
        while not isinstance(event := receive(self._inbox, PATIENCE), events.GatheringEnded):
            if isinstance(event, events.Answer | events.HostLost):
                self.gathering.hear(event)

    def _one_is_over(self) -> None:
        with self._heard:
            self._heard.notify_all()

    # ---- before the next attempt
    def restore(self, *, intact: bool = False) -> None:
        """All phases, to their end. Raises what `Restoring.phases` does."""
        restoring = Restoring(self.run, self.all, self.gathering, self._say, intact=intact)
        for errands in restoring.phases():
            with self._heard:
                assert self._heard.wait_for(lambda asked=errands: all(each.done() for each in asked), timeout=60)  # type: ignore[misc]

    # ---- what is where
    def output(self, number: int) -> Path:
        """The output directory of a host."""
        return Path(self.hosts[number].output_dir)

    def there(self, number: int) -> dict[str, bytes]:
        """Every file in it."""
        return contents(self.output(number))

    def left_of(self, number: int) -> list[str]:
        """What else lies in the run's directory on the host."""
        return sorted(path.name for path in Path(self.hosts[number].run_dir).iterdir() if path.name != "output")


def write(directory: Path, path: str, content: bytes = b"content", mtime: float = 1e9) -> Path:
    """A file, last written to so many seconds after 1970."""
    file = directory / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    os.utime(file, ns=(int(mtime * 1e9), int(mtime * 1e9)))
    return file


def save(directory: Path, step: int, size: int = 1000, named: str | None = None) -> Mapping[str, bytes]:
    """A checkpoint as TensorFlow leaves it; its two files. `named`: what the state file calls it."""
    prefix = f"ckpt/step-{step}"
    write(directory, prefix + SHARD, os.urandom(size), 1e9 + step)
    write(directory, prefix + ".index", os.urandom(100) + INDEX_END, 1e9 + step + 0.1)
    state = f'model_checkpoint_path: "{named or f"step-{step}"}"\n'.encode()
    write(directory, "ckpt/checkpoint", state, 1e9 + step + 0.2)
    return {path: (directory / path).read_bytes() for path in (prefix + SHARD, prefix + ".index")}
