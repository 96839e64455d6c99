"""What the tests need of a machine besides Python, and how to get what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable


def with_sbin(path: str) -> str:
    """PATH with the `sbin` beside each `bin` in it: an ordinary user's lacks the directories of ip and sshd."""
    places = path.split(os.pathsep)
    return os.pathsep.join([*places, *(f"{place[:-3]}sbin" for place in places if place.endswith("/bin"))])


PATH = with_sbin(os.environ.get("PATH", os.defpath))
"""Where the rig looks for programs."""

OF_THE_RIG = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "bash": "bash",
    "hostname": "hostname",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "ip": "iproute2",
    "bridge": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "gcc": "gcc libc6-dev",
}
"""What every rig needs, with Debian's package of each."""
OF_A_USER = {"newuidmap": "uidmap"}
"""What it needs besides where it is not root who makes it."""
NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--propagation", "private")
IN_A_NEW_USER_NAMESPACE = ("--user", "--map-root-user", "--map-auto")

TRIAL = """
set -e
mount -t tmpfs tmpfs /run
mount -t proc proc /proc
mount -t sysfs sysfs /sys
ip link add switch type bridge
ip link add here type veth peer name there
echo "add table inet rig" | nft -f -
"""
RIGHTS_OF_ROOT = "the right to make namespaces, to mount and to set up a network (in a container: --privileged)"
RIGHTS_OF_A_USER = (
    "root, or user namespaces and a range of other users' numbers "
    "(usermod --add-subuids 100000-165535 --add-subgids 100000-165535 NAME)"
)


def unshare() -> tuple[str, ...]:
    """The command that runs another as root of a sealed part of the machine."""
    return ("unshare", *(() if os.geteuid() == 0 else IN_A_NEW_USER_NAMESPACE), *NAMESPACES, "--")


def found(program: str) -> str | None:
    """The path of a program."""
    return shutil.which(program, path=PATH)


def missing_program(program: str, package: str | None = None) -> str | None:
    """Why a test that needs this program cannot run here; None where it can. `package`: Debian's name."""
    return None if found(program) else f"needs {program}: {install([package or program])}"


def missing() -> str | None:
    """Why the rig cannot run here, and what helps; None where it can."""
    is_root = os.geteuid() == 0
    needed = OF_THE_RIG if is_root else OF_THE_RIG | OF_A_USER
    absent = {program: package for program, package in needed.items() if not found(program)}
    if absent:
        return f"the rig needs {', '.join(absent)}: {install(absent.values())}"
    tried = subprocess.run([*unshare(), "sh", "-c", TRIAL], capture_output=True, text=True, env={"PATH": PATH})
    if tried.returncode:
        return f"the rig needs {RIGHTS_OF_ROOT if is_root else RIGHTS_OF_A_USER}: {tried.stderr.strip()}"
    return None


def install(packages: Iterable[str]) -> str:
    """The command that installs these packages on Debian and Ubuntu."""
    return f"apt-get install {' '.join(sorted(set(packages)))}"
