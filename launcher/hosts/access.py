"""Starts the agent of one host, on this machine or through ssh, and explains why that failed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.caller.working_directory import working_directory
from launcher.cluster.cluster import Host
from launcher.errors import HostError
from launcher.hosts.agent_process import AgentProcess
from launcher.hosts.shortage import MORE_FILES, of_this_machine
from launcher.hosts.ssh_complaint import Complaint, explained
from launcher.hosts.transport import AGENT, SSH, agent_argv, local, over_ssh, ssh_options
from launcher.on_host.agent.limits import raise_open_files, restore_open_files
from launcher.wording import counted

OPEN_FILES, OPEN_FILES_A_HOST = 40, 12
"""The most that a launcher has open for itself, and for each host: pipes, logs, files that are gathered or sent."""
ASKING_SSH = 2.0
"""Seconds that ssh gets to evaluate its configuration, which may run programs (`Match exec`)."""
SSH_PORT = "22"


class NotStartedError(Exception):
    """This machine cannot start another process."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.reason)
        self.complaint = complaint


def allow_open_files(hosts: int) -> None:
    """Raise the limit of open files if the launcher needs more for so many hosts.

    Raises:
        HostError: this machine does not allow that many.
    """
    needed = OPEN_FILES + hosts * OPEN_FILES_A_HOST
    if os.sysconf("SC_OPEN_MAX") < needed:
        raise_open_files()
        allowed = os.sysconf("SC_OPEN_MAX")
        if allowed < needed:
            raise HostError(
                f"a process may have {allowed} open files on this machine, and the launcher may need {needed} for "
                f"{counted(hosts, 'host')}\n  What to do: {MORE_FILES.format(host='this machine')}."
            )


@dataclass(slots=True)
class Access:
    """How to start the agent of one host."""

    host: str
    argv: Sequence[str]
    options: Sequence[str] = ()
    """Options for ssh from the cluster file. Remedies repeat them, so that the user types the same ssh."""
    ssh: Sequence[str] = ()
    """The ssh command line up to the host's name; empty for this machine."""
    packages: Sequence[str] = AGENT
    """The packages of the agent's program."""

    def start(self) -> AgentProcess:
        """Start an agent's process and begin to send it its program. Commands may follow at once.

        Raises:
            NotStartedError: this machine refuses another process or another open file.
            OSError: ssh is not installed here...
        """
        try:
            process = AgentProcess(self.argv)
        except OSError as error:
            short = of_this_machine(error)
            if short is None:
                raise
            raise NotStartedError(Complaint(*short)) from error
        restore_open_files(process.pid)
        process.send_program(self.packages)
        return process

    def destination(self) -> str:
        """Where the ssh configuration sends this host; empty if that is just the host's name. Takes 10 ms."""
        words = [*self.ssh, "-G", "--", self.host]
        try:
            config = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=ASKING_SSH
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return ssh_destination(config, self.host)

    def explained(self, said: str, ended: str) -> Complaint:
        """Why the agent ended. `said`: its stderr; `ended`: how its process ended."""
        return explained(said, ended, self.host, self.options)


def access(host: Host, lease: float) -> Access:
    """How to start the agent of a host. `lease`: seconds."""
    if host.is_local:
        return Access(host.name, agent_argv(host.name, local))
    chosen = chosen_options(host)
    options = [*chosen, *ssh_options(host.ssh.connect_timeout, lease)]
    return Access(host.name, agent_argv(host.name, over_ssh(options)), chosen, [SSH, *options])


def chosen_options(host: Host) -> list[str]:
    """The ssh options of the cluster file as arguments. Of two values for one option, ssh uses the first."""
    config = ["-F", str(Path(working_directory(), Path(host.ssh.config).expanduser()))] if host.ssh.config else []
    return [*config, *host.ssh.options]


def ssh_destination(config: str, host: str) -> str:
    """`10.77.0.12`, `10.77.0.12 port 2222`, `10.77.0.12 through gate`; empty where that is the host's own name.

    Args:
        config: what `ssh -G` printed: a keyword in small letters and its value on each line.
        host: as the cluster file names it, with `user@` if that is there.
    """
    options = dict(line.split(" ", 1) for line in reversed(config.splitlines()) if " " in line)
    name = options.get("hostname", "")
    port = options.get("port", SSH_PORT)
    jump = options.get("proxyjump", "none")
    if name == host.rpartition("@")[2] and port == SSH_PORT and jump == "none":
        return ""
    return name + (f" port {port}" if port != SSH_PORT else "") + (f" through {jump}" if jump != "none" else "")
