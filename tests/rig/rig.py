"""All hosts of a lab, and the machine from which people log in to them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rig.cable import address, address_6, set_up_switch
from rig.host import Host, LoginMachine, await_banners
from rig.lab import Lab, RigError
from rig.ssh_client import SshClient

MOST_HOSTS = 240
MOST_STRANGERS = 16
"""Hosts up to which each asks for the others' network cards. The kernel keeps 1024 answers, for all hosts of a machine
together. With more hosts each is told at once, and that does not count."""
PRIVATE = ("/tmp", "/var/tmp", "/root", "/home")
PYTHON = (sys.prefix, sys.base_prefix, Path(sys.executable).resolve().parents[1])
USERS = "tb:x:10077:10077::/home/tb:/bin/bash\neve:x:10078:10078::/tmp:/bin/sh\n"
"""Eve has no key, and no home: she is whoever else may log in to a host."""
GROUPS = "tb:x:10077:\neve:x:10078:\nlab:x:10079:tb,eve\n"
PASSWORDS = "root:*:19000:0:99999:7:::\ntb:*:19000:0:99999:7:::\n"


class Rig:
    """Hosts and their network; a context manager that leaves nothing behind, however its process ends.

    Each host has /tmp, /var/tmp, /root, /home and all of `private` for itself, on a disk of the size `disk`. All else
    is this machine's, read-only; so is what is `visible`, though it may lie below a private place.
    """

    def __init__(
        self,
        hosts: int = 3,
        private: Iterable[str | Path] = (),
        visible: Iterable[str | Path] = PYTHON,
        disk: str = "256m",
    ) -> None:
        if not 1 <= hosts <= MOST_HOSTS:
            raise RigError(f"{hosts} hosts: a rig has 1 to {MOST_HOSTS}")
        own = [Path(place).resolve() for place in (*PRIVATE, *private)]
        self._lab = Lab()
        self.login = LoginMachine(self._lab.on_login_machine)
        self.hosts: tuple[Host, ...] = ()
        try:
            numbers = range(1, hosts + 1)
            addresses = {f"host{number}": (address(number), address_6(number)) for number in numbers}
            self.ssh = SshClient(self._lab.directory, addresses)
            neighbours = numbers if hosts > MOST_STRANGERS else ()
            self.hosts = tuple(Host(self._lab, number, self.ssh, disk, neighbours) for number in numbers)
            files = {
                "hosts": names_and_addresses(self.login, self.hosts),
                "resolv.conf": "",
                "passwd": USERS + Path("/etc/passwd").read_text(),
                "group": GROUPS + Path("/etc/group").read_text(),
                "shadow": PASSWORDS,
                "authorized_keys": self.ssh.public_key.read_text(),
                "private": lines(own),
                "visible": lines(below(own, map(Path, visible))),
            }
            for host in self.hosts:
                host.make_directory({**files, "hostname": f"{host.name}\n"})
            self.ssh.know({host.name: host.public_key for host in self.hosts})
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        for host in self.hosts:
            host.start()
        set_up_switch(self._lab)
        for host in self.hosts:
            host.connect()
        await_banners(self._lab, self.hosts)

    @property
    def environment(self) -> dict[str, str]:
        """For what is started on the login machine: with it, `ssh host1` goes to the first host."""
        return {
            "PATH": f"{self.ssh.programs}:{os.environ.get('PATH', os.defpath)}",
            "RIG_SSH_CONFIG": str(self.ssh.config),
            "RIG_HOSTS": " ".join(host.name for host in self.hosts),
        }

    def close(self) -> None:
        """Return once nothing of it is left."""
        for host in self.hosts:
            host.close()
        self._lab.close()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def names_and_addresses(login: LoginMachine, hosts: Sequence[Host]) -> str:
    """/etc/hosts of each host."""
    machines = [("login", login.addresses), *((host.name, host.addresses) for host in hosts)]
    return "127.0.0.1 localhost\n::1 localhost\n" + "".join(
        f"{four} {name}\n{six} {name}-v6\n" for name, (four, six) in machines
    )


def below(places: Sequence[Path], paths: Iterable[Path]) -> list[Path]:
    """Those paths that are in one of the places, without those in another one of the paths."""
    found = {
        path for path in paths if any(each.is_relative_to(place) for each in (path, path.resolve()) for place in places)
    }
    return sorted(path for path in found if not any(path != other and path.is_relative_to(other) for other in found))


def lines(paths: Iterable[Path]) -> str:
    """One on each line."""
    return "".join(f"{path}\n" for path in paths)
