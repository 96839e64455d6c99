"""What ssh on the login machine reads: its configuration, its key, the hosts it knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rig.requirements import found
from rig.sshd import make_key

FOR_ALL_HOSTS = """\
Host host* {addresses}
    User tb
    IdentityFile "{directory}/id"
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile "{directory}/known_hosts"
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    BatchMode yes
    ConnectTimeout 5
    LogLevel ERROR
"""

SSH = """\
#!/bin/sh
exec {ssh} -F '{config}' "$@"
"""


class SshClient:
    """Its files lie in one directory."""

    def __init__(self, directory: Path, hosts: Mapping[str, Sequence[str]]) -> None:
        """Hosts are known by name and by each of their addresses; the name stands for the first."""
        self._hosts = hosts
        self.config = directory / "ssh_config"
        self.known_hosts = directory / "known_hosts"
        self.public_key = directory / "id.pub"
        self.programs = directory / "programs"
        """A directory for PATH; its `ssh` reads `config`."""
        make_key(directory / "id", "rig")
        each = [f"Host {name}\n    HostName {first}\n    HostKeyAlias {name}\n" for name, (first, *_) in hosts.items()]
        addresses = " ".join(address for all_of_one in hosts.values() for address in all_of_one)
        self.config.write_text("".join(each) + FOR_ALL_HOSTS.format(directory=directory, addresses=addresses))
        self.programs.mkdir()
        (self.programs / "ssh").write_text(SSH.format(ssh=found("ssh"), config=self.config))
        (self.programs / "ssh").chmod(0o755)

    def know(self, public_keys: Mapping[str, Path]) -> None:
        """Write down these hosts' keys."""
        lines = [f"{','.join([name, *self._hosts[name]])} {key.read_text()}" for name, key in public_keys.items()]
        self.known_hosts.write_text("".join(lines))

    @contextmanager
    def forgotten(self, name: str) -> Iterator[None]:
        """In the block the host is not known."""
        before = self.known_hosts.read_text()
        others = (line for line in before.splitlines(keepends=True) if line.partition(",")[0] != name)
        with replaced(self.known_hosts, others):
            yield

    @contextmanager
    def configured(self, pattern: str, *options: str) -> Iterator[None]:
        """In the block these lines come first for the hosts of this pattern."""
        lines = [f"Host {pattern}", *(f"    {option}" for option in options)]
        with replaced(self.config, [*(f"{line}\n" for line in lines), self.config.read_text()]):
            yield


@contextmanager
def replaced(path: Path, text: Iterable[str]) -> Iterator[None]:
    """In the block the file has this content."""
    before = path.read_text()
    path.write_text("".join(text))
    try:
        yield
    finally:
        path.write_text(before)
