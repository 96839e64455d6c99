"""What a host tells of itself, once, when the launcher says hello."""

from __future__ import annotations

import os
import socket
import sys
import time

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator
    from typing import Any


def facts(variables: list[str]) -> dict[str, Any]:
    """The host as a plan, the proof of addresses and the search for the same machine under two names need it.

    Args:
        variables: names of the environment variables that the launcher must know. Others may be secrets, and stay here.
    """
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "hostname": os.uname().nodename,
        "pid": os.getpid(),
        "guard": os.getppid(),
        "cpus": len(os.sched_getaffinity(0)),
        "home": os.path.expanduser("~"),
        "machine": machine(),
        "addresses": [*ipv4_addresses(), *ipv6_addresses()],
        "ssh_connection": os.environ.get("SSH_CONNECTION", ""),
        "environment": {name: os.environ[name] for name in variables if name in os.environ},
        "time": time.time(),
    }


def machine() -> str:
    """The same for two agents only if they share kernel and network: then it is one host under two names."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as boot:
            return f"{boot.read().strip()}:{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return ""


def own_addresses() -> list[str]:
    """All from which this host may connect to itself, also those that nobody else can dial."""
    return [*ipv4_addresses(), *map(ipv6_address, ipv6_entries())]


def ipv4_addresses() -> list[str]:
    """This host's own IPv4 addresses without loopback, from the kernel's routing trie."""
    found: dict[str, None] = {}
    address = ""
    for line in lines_of("/proc/net/fib_trie"):
        words = line.split()
        if words[0] == "|--":
            address = words[1]
        elif words[:3] == ["/32", "host", "LOCAL"] and not address.startswith("127."):
            found[address] = None
    return list(found)


def ipv6_addresses() -> list[str]:
    """This host's own IPv6 addresses that others can dial: neither loopback nor of one link only."""
    return [ipv6_address(entry) for entry in ipv6_entries() if entry[3] == "00"]


def ipv6_entries() -> list[list[str]]:
    """What the kernel says of each: the address, three numbers (the last is how far it counts), flags, interface."""
    return [line.split() for line in lines_of("/proc/net/if_inet6")]


def ipv6_address(entry: list[str]) -> str:
    """As a person writes it."""
    return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(entry[0]))


def lines_of(path: str) -> Iterator[str]:
    """The lines of a file of /proc that not every kernel has."""
    try:
        with open(path, encoding="utf-8") as file:
            yield from (line for line in file if line.strip())
    except OSError:
        return
