"""A host to gather from: a real agent of this machine, and the launcher's end of it."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue

from launcher.cluster.defaults import LEASE
from launcher.gathering.chief_output import ChiefOutput
from launcher.gathering.conversation import Conversation, HostAwayError
from launcher.gathering.gathered import Gathered
from launcher.gathering.worker_logs import WorkerLogs
from launcher.hosts import events
from launcher.hosts.access import Access
from launcher.hosts.connection import Connection
from launcher.hosts.inbox import Inbox, receive
from launcher.hosts.transport import agent_argv
from launcher.on_host.agent.messages import Command, FilesArrived, Hello
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.state import RunHost
from support.launching import PATIENCE

NAMES = (".",)
INDEX_END = bytes.fromhex("57fb808b247547db")
SHARD = ".data-00000-of-00001"


class GatheringHost:
    """`root` is the run's directory on the host, `output` what the chief writes to, `chief` what has come of it."""

    def __init__(self, directory: Path, before: Sequence[str] = ()) -> None:
        """`before`: words in front of the command that starts the agent."""
        self.root = directory / "host"
        self.output = self.root / "output"
        self.output.mkdir(parents=True)
        self.run = RunDirectory(directory / "run")
        self.run.path.mkdir(mode=0o700)
        self.chief = self.run.make_chief()
        self.host = RunHost("gpu-a", ("worker-0", "worker-1"), str(self.root), str(self.output))
        self.said: list[str] = []
        self.asked: list[type[Command]] = []
        self.on_piece: Callable[[], object] = lambda: None
        """Called before each piece is taken from the agent; until it returns the agent is told of nothing."""
        self._before = before
        self.connect()

    # ---- the agent
    def connect(self) -> None:
        """Start an agent."""
        inbox: Inbox = SimpleQueue()
        gate = threading.Semaphore()
        self.connection = Connection("gpu-a", (), Access("gpu-a", [*self._before, *agent_argv("gpu-a")]), inbox, gate)
        self.connection.send(Hello(LEASE, []))
        ready = receive(inbox, PATIENCE)
        assert isinstance(ready, events.HostReady)
        self.agent = ready.facts.pid
        self.conversation = Conversation(self._ask, itertools.count(1))
        self._forwarder = threading.Thread(target=self._forward, args=(inbox, self.conversation))
        self._forwarder.start()
        self._inbox = inbox

    def close(self) -> None:
        """End the agent."""
        self.connection.close()
        self._inbox.put(events.GatheringEnded())
        self._forwarder.join()

    def cut(self) -> None:
        """The link breaks at once."""
        self.connection.give_up("the link is cut")

    def _ask(self, command: Command) -> None:
        self.asked.append(type(command))
        if isinstance(command, FilesArrived):
            self.on_piece()
        self.connection.send(command)

    def _forward(self, inbox: Inbox, conversation: Conversation) -> None:
        while not isinstance(event := receive(inbox, PATIENCE), events.GatheringEnded):
            if isinstance(event, events.Answer):
                conversation.hear(event.message)
            elif isinstance(event, events.HostLost):
                conversation.hear(HostAwayError(event.reason))

    # ---- what is there
    def write(self, path: str, content: bytes = b"content", mtime: float = 1e9) -> Path:
        """A file in the output directory, last written to so many seconds after 1970."""
        file = self.output / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, ns=(int(mtime * 1e9), int(mtime * 1e9)))
        return file

    def save(self, step: int, size: int = 1000) -> str:
        """A checkpoint as TensorFlow leaves it, with its state file; its prefix."""
        prefix = f"checkpoints/step-{step}"
        self.write(prefix + SHARD, os.urandom(size), 1e9 + step)
        self.write(prefix + ".index", os.urandom(100) + INDEX_END, 1e9 + step + 0.1)
        self.write("checkpoints/checkpoint", f'model_checkpoint_path: "step-{step}"\n'.encode(), 1e9 + step + 0.2)
        return prefix

    # ---- what comes
    def gather(self, *, final: bool = True) -> Gathered:
        """One look."""
        return ChiefOutput(self.run, self.host, NAMES, self.said.append).gather(self.conversation, final=final)

    def gather_logs(self) -> Gathered:
        """The logs of its two workers."""
        return WorkerLogs(self.run, str(self.root), self.host.tasks).gather(self.conversation)

    @property
    def here(self) -> dict[str, bytes]:
        """Every file that has come."""
        return contents(self.chief)

    @property
    def there(self) -> dict[str, bytes]:
        """Every file of the output directory."""
        return contents(self.output)

    @property
    def parts(self) -> list[bytes]:
        """What is on its way."""
        return [path.read_bytes() for path in self.run.parts.iterdir()] if self.run.parts.exists() else []


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
