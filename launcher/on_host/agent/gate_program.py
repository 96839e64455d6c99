"""The BPF program by which the kernel passes a connection to the worker or to the gate. Pure.

It is classic BPF, as SO_ATTACH_REUSEPORT_CBPF needs it: it gets the first packet of a connection, and returns the index
of one of the sockets at the port, in the order in which they began to listen.
"""

from __future__ import annotations

import socket
import struct

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterable

    Instruction = tuple[int, int, int, int]
    """Operation, instructions to skip if a comparison is true and if it is false, operand."""
    Words = tuple[int, ...]
    """An address as words of four bytes: one for IPv4, four for IPv6."""

LOAD_BYTE, LOAD_WORD, AND, SHIFT_RIGHT, JUMP, JUMP_IF_EQUAL, RETURN = 0x30, 0x20, 0x54, 0x74, 0x05, 0x15, 0x06
NETWORK = -0x100000 & 0xFFFFFFFF
"""The offset of the IP header. An IPv4 packet has an IPv4 header also at a socket for IPv6."""
SOURCE_OF_IPV4, SOURCE_OF_IPV6 = NETWORK + 12, NETWORK + 8
GATE, WORKER = 0, 1
"""The index of each one's socket. Before the worker listens there is no second one, and the kernel uses the first."""
MOST_INSTRUCTIONS = 4096
"""The kernel's limit."""
LONGEST_BRANCH = 255
"""Instructions that a comparison can skip at most: the field has one byte."""
LOOPBACK_NETWORK, LOOPBACK_MASK = 0x7F000000, 0xFF000000


def admission(addresses: Iterable[str]) -> bytes:
    """A program that admits these addresses and this machine's loopback, as an array of the kernel's `sock_filter`.

    Raises:
        ValueError: there are too many addresses.
    """
    program = instructions(addresses)
    if len(program) > MOST_INSTRUCTIONS:
        raise ValueError(f"a program of {len(program)} instructions; the kernel takes {MOST_INSTRUCTIONS}")
    return packed(program)


def always(index: int) -> bytes:
    """A program that picks the same socket for all connections."""
    return packed([(RETURN, 0, 0, index)])


def packed(program: Iterable[Instruction]) -> bytes:
    """The program as the kernel's array of `sock_filter`."""
    return b"".join(struct.pack("HBBI", *each) for each in program)


def instructions(addresses: Iterable[str]) -> list[Instruction]:
    """The program as a list of instructions."""
    known = {words_of(address) for address in addresses}
    ipv4 = one_of([each for each in known if len(each) == 1], SOURCE_OF_IPV4)
    ipv6 = one_of([*(each for each in known if len(each) == 4), words_of("::1")], SOURCE_OF_IPV6)
    from_loopback: list[Instruction] = [
        (LOAD_WORD, 0, 0, SOURCE_OF_IPV4),
        (AND, 0, 0, LOOPBACK_MASK),
        (JUMP_IF_EQUAL, 0, 1, LOOPBACK_NETWORK),
        (RETURN, 0, 0, WORKER),
    ]
    return [
        (LOAD_BYTE, 0, 0, NETWORK),
        (SHIFT_RIGHT, 0, 0, 4),  # the high half of the byte is the IP version
        (JUMP_IF_EQUAL, 1, 0, 6),
        (JUMP, 0, 0, len(ipv6)),
        *ipv6,
        *from_loopback,
        *ipv4,
    ]


def one_of(addresses: Iterable[Words], offset: int) -> list[Instruction]:
    """Instructions that return `WORKER` if the words at `offset` are one of these addresses, else `GATE`.

    All addresses have the same length. A prefix that several addresses share is compared only once.
    """
    by_first: dict[int, set[Words]] = {}
    for first, *rest in addresses:
        by_first.setdefault(first, set()).add(tuple(rest))
    found: list[Instruction] = [(LOAD_WORD, 0, 0, offset)]
    for first, endings in sorted(by_first.items()):
        behind = [(RETURN, 0, 0, WORKER)] if () in endings else one_of(endings, offset + 4)
        if len(behind) <= LONGEST_BRANCH:
            found += [(JUMP_IF_EQUAL, 0, len(behind), first), *behind]
        else:
            found += [(JUMP_IF_EQUAL, 1, 0, first), (JUMP, 0, 0, len(behind)), *behind]
    return [*found, (RETURN, 0, 0, GATE)]


def words_of(address: str) -> Words:
    """An address as words; an IPv4-mapped one (`::ffff:10.0.0.1`) as IPv4."""
    plain = plain_address(address)
    family = socket.AF_INET6 if ":" in plain else socket.AF_INET
    raw = socket.inet_pton(family, plain)
    return struct.unpack(f">{len(raw) // 4}I", raw)


def plain_address(address: str) -> str:
    """The address without an interface name (`%eth0`), and IPv4-mapped ones as IPv4.

    A socket for both families reports the peers of its connections as such addresses.
    """
    address = address.partition("%")[0]
    mapped = address.lower().startswith("::ffff:") and "." in address
    return address.rpartition(":")[2] if mapped else address
