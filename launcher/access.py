"""How the agent of one host is started and, where that fails, understood: here, or through ssh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.agent_process import PIPE_SIZE, AgentProcess
from launcher.cluster_file import Host
from launcher.ssh_complaint import Complaint, explained
from launcher.transport import agent_argv, local, over_ssh

SSH_PIPE_SIZE = 1 << 18
"""Bytes. With 1 MiB a pipe, 32 hosts would use up what the kernel lends to an ordinary user (pipe(7))."""
UNANSWERED = 3
"""How many of ssh's own signs of life may stay unanswered before it takes the connection for dead."""


@dataclass(slots=True)
class Access:
    """One host's way in."""

    host: str
    argv: Sequence[str]
    options: Sequence[str] = ()
    """Of ssh; they also stand in the remedies for when it fails."""
    pipe_size: int = PIPE_SIZE
    early: AgentProcess | None = None
    """An agent that was started before; it is used once."""

    def start(self) -> AgentProcess:
        """An agent's process that may be written to.

        Raises:
            OSError: there is no such program here.
        """
        early, self.early = self.early, None
        if early is not None:
            return early
        process = AgentProcess(self.argv, self.pipe_size)
        process.send_program()
        return process

    def explained(self, said: str, ended: str) -> Complaint:
        """Why the agent ended, from its stderr and the way it did."""
        return explained(said, ended, self.host, self.options)


def access(host: Host, lease: float, early: AgentProcess | None = None) -> Access:
    """The way to a host of a cluster file."""
    if host.is_local:
        return Access(host.name, agent_argv(host.name, local), early=early)
    chosen = chosen_options(host)
    return Access(
        host.name, agent_argv(host.name, over_ssh([*chosen, *our_options(host, lease)])), chosen, SSH_PIPE_SIZE
    )


def chosen_options(host: Host) -> list[str]:
    """What the cluster file says of the way to a host, as arguments of ssh."""
    config = ["-F", str(Path(host.ssh.config).expanduser())] if host.ssh.config else []
    return [*config, *host.ssh.options]


def our_options(host: Host, lease: float) -> list[str]:
    """What we ask of ssh beside the user's configuration, behind the options of the cluster file: the first one wins.

    - No question is asked (BatchMode); an unknown host key is an error, unless the user's configuration accepts it.
    - A connection that somebody else shares (ControlPath) is used, and none is left behind for others.
    - Nothing but the agent runs there: no terminal, no forwarding, no RemoteCommand of the user's.
    """
    wanted = {
        "BatchMode": "yes",
        "ConnectTimeout": str(max(1, round(host.ssh.connect_timeout))),
        "ServerAliveInterval": str(max(1, round(lease / UNANSWERED))),
        "ServerAliveCountMax": str(UNANSWERED),
        "ControlMaster": "no",
        "RemoteCommand": "none",
        "ClearAllForwardings": "yes",
        "LogLevel": "INFO",
    }
    return ["-T", "-x", *(word for key, value in wanted.items() for word in ("-o", f"{key}={value}"))]
