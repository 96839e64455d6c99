"""Where ssh goes for a host, from what `ssh -G` tells of its configuration. Pure."""

from __future__ import annotations

DEFAULT_PORT = "22"


def destination(told: str, host: str) -> str:
    """`10.77.0.12`, `10.77.0.12 port 2222`, `10.77.0.12 through gate`; empty where that is the host's own name.

    Args:
        told: what `ssh -G` printed: a keyword in small letters and its value on each line.
        host: as the cluster file names it, `user@` and all.
    """
    options = dict(line.split(" ", 1) for line in reversed(told.splitlines()) if " " in line)
    name = options.get("hostname", "")
    port = options.get("port", DEFAULT_PORT)
    jump = options.get("proxyjump", "none")
    if name == host.rpartition("@")[2] and port == DEFAULT_PORT and jump == "none":
        return ""
    return name + (f" port {port}" if port != DEFAULT_PORT else "") + (f" through {jump}" if jump != "none" else "")
