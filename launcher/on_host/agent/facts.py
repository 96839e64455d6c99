"""What a host reports about itself, once, as the answer to `Hello`."""

from __future__ import annotations

import os
import socket
import sys
import time

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterator
    from typing import Any


def facts(variables: list[str]) -> dict[str, Any]:
    """What the launcher needs to know of a host to plan, to prove addresses, and to find one machine under two names.

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
    """An id that two agents share only if they share kernel and network: one host under two names."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as boot:
            return f"{boot.read().strip()}:{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return ""


def own_addresses() -> list[str]:
    """All addresses from which this host may connect to itself, link-local ones included."""
    return [*ipv4_addresses(), *map(ipv6_address, ipv6_entries())]


def ipv4_addresses() -> list[str]:
    """This host's IPv4 addresses without loopback, from the kernel's routing trie."""
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
    """This host's IPv6 addresses that others can dial: neither loopback nor link-local."""
    return [ipv6_address(entry) for entry in ipv6_entries() if entry[3] == "00"]


def ipv6_entries() -> list[list[str]]:
    """The words of each entry: address, interface number, prefix length, scope, flags, interface name."""
    return [line.split() for line in lines_of("/proc/net/if_inet6")]


def ipv6_address(entry: list[str]) -> str:
    """The address of an entry, in its usual notation."""
    return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(entry[0]))


def lines_of(path: str) -> Iterator[str]:
    """The lines of a file of /proc, none if this kernel does not have the file."""
    try:
        with open(path, encoding="utf-8") as file:
            yield from (line for line in file if line.strip())
    except OSError:
        return
