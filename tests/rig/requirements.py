"""What the rig needs of a machine, and how to get what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
"""Where the rig looks for programs; an ordinary user's PATH lacks the directories of ip and sshd."""

PACKAGES = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "ip": "iproute2",
    "bridge": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "gcc": "gcc libc6-dev",
}
"""Debian's package of each program."""

NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--propagation", "private")
IN_A_NEW_USER_NAMESPACE = ("--user", "--map-root-user", "--map-auto")

TRIAL = "mount -t tmpfs tmpfs /run && mount -t proc proc /proc && mount -t sysfs sysfs /sys"
RIGHTS_OF_ROOT = "the right to make namespaces and to mount (in a container: --privileged)"
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
    """Why a test that needs this program cannot run here; None where it can."""
    return None if found(program) else f"needs {program}: apt-get install {package or program}"


def missing() -> str | None:
    """Why the rig cannot run here, and what helps; None where it can."""
    needed = PACKAGES if os.geteuid() == 0 else {**PACKAGES, "newuidmap": "uidmap"}
    absent = {program: package for program, package in needed.items() if not found(program)}
    if absent:
        return f"the rig needs {', '.join(absent)}: apt-get install {' '.join(sorted(set(absent.values())))}"
    tried = subprocess.run([*unshare(), "sh", "-c", TRIAL], capture_output=True, text=True, env={"PATH": PATH})
    if tried.returncode:
        return f"the rig needs {RIGHTS_OF_ROOT if os.geteuid() == 0 else RIGHTS_OF_A_USER}: {tried.stderr.strip()}"
    return None
