"""The sshd of a host, by the files in the host's directory, which the host sees as /run/rig."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from rig.lab import RigError, checked
from rig.requirements import found

CONFIG = """\
PidFile /run/rig/sshd.pid
AuthorizedKeysFile /run/rig/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
PrintLastLog no
MaxStartups 200
MaxSessions 200
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
"""
WITHOUT_PENALTIES = "PerSourcePenalties no\n"
"""A newer sshd turns a machine away whose sessions often end badly. An older one does not know the option."""


def path_of_sshd() -> str:
    """Its whole path, without which it does not start."""
    path = found("sshd")
    if path is None:
        raise RigError("there is no sshd")
    return path


def make_key(path: Path, comment: str) -> None:
    """A new key pair: `path` and `path`.pub."""
    checked(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


@cache
def knows_penalties() -> bool:
    """Whether this machine's sshd has `PerSourcePenalties`."""
    tried = subprocess.run(
        [path_of_sshd(), "-G", "-o", "PerSourcePenalties=no", "-f", "/dev/null"], capture_output=True
    )
    return tried.returncode == 0


class Sshd:
    """What it reads when it starts. Change the attributes, then `write_files`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.host_key = directory / "ssh_host_key"
        """Its path in the host's directory."""
        self.options: tuple[str, ...] = ()
        """Lines that come before `CONFIG` and so win against it."""
        self.environment: dict[str, str] = {}
        """What its sessions have besides."""

    def write_files(self) -> None:
        """The configuration; and no process id, so that its coming tells that sshd listens."""
        environment = " ".join(f'"{name}={value}"' for name, value in self.environment.items())
        lines = [
            *self.options,
            *([f"SetEnv {environment}"] if environment else []),
            f"HostKey /run/rig/{self.host_key.name}",
        ]
        penalties = WITHOUT_PENALTIES if knows_penalties() else ""
        (self._directory / "sshd_config").write_text("\n".join([*lines, penalties + CONFIG]))
        (self._directory / "sshd.pid").unlink(missing_ok=True)

    @property
    def pid(self) -> int | None:
        """The process that listens, as the host numbers it, once it does."""
        try:
            return int((self._directory / "sshd.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
