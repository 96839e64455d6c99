"""The program by which the kernel chooses who answers a connection: the worker, or the gate before it. Pure.

It is classic BPF, as SO_ATTACH_REUSEPORT_CBPF takes it: it sees the first packet of a connection, and returns the place
of one of the sockets that listen at the port, in the order in which they began to.
"""

from __future__ import annotations

import socket
import struct

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterable

    Instruction = tuple[int, int, int, int]
    """Operation, how many instructions to pass over if it holds and if it does not, its number."""
    Words = tuple[int, ...]
    """An address: four bytes each, one of IPv4, four of IPv6."""

LOAD_BYTE, LOAD_WORD, AND, SHIFT_RIGHT, JUMP, JUMP_IF_EQUAL, RETURN = 0x30, 0x20, 0x54, 0x74, 0x05, 0x15, 0x06
NETWORK = -0x100000 & 0xFFFFFFFF
"""Where the header of IPv4 or IPv6 begins. A packet of IPv4 has that of IPv4 at a socket of IPv6, too."""
SOURCE_OF_IPV4, SOURCE_OF_IPV6 = NETWORK + 12, NETWORK + 8
GATE, WORKER = 0, 1
"""Whose socket takes a connection. Before the worker listens there is no second one, and the kernel takes the first."""
MOST_INSTRUCTIONS = 4096
"""More than that the kernel does not take."""
LONGEST_BRANCH = 255
"""Instructions that a comparison can pass over."""
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


def always(place: int) -> bytes:
    """A program that has one choice for all."""
    return packed([(RETURN, 0, 0, place)])


def packed(program: Iterable[Instruction]) -> bytes:
    """As the kernel reads it."""
    return b"".join(struct.pack("HBBI", *each) for each in program)


def instructions(addresses: Iterable[str]) -> list[Instruction]:
    """The program, an instruction each."""
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
        (SHIFT_RIGHT, 0, 0, 4),  # what is left is the version
        (JUMP_IF_EQUAL, 1, 0, 6),
        (JUMP, 0, 0, len(ipv6)),
        *ipv6,
        *from_loopback,
        *ipv4,
    ]


def one_of(addresses: Iterable[Words], place: int) -> list[Instruction]:
    """Return whether the words from `place` on are one of these addresses, all of one length.

    Addresses that begin alike are compared with what they have in common only once.
    """
    by_first: dict[int, set[Words]] = {}
    for first, *rest in addresses:
        by_first.setdefault(first, set()).add(tuple(rest))
    found: list[Instruction] = [(LOAD_WORD, 0, 0, place)]
    for first, endings in sorted(by_first.items()):
        behind = [(RETURN, 0, 0, WORKER)] if () in endings else one_of(endings, place + 4)
        if len(behind) <= LONGEST_BRANCH:
            found += [(JUMP_IF_EQUAL, 0, len(behind), first), *behind]
        else:
            found += [(JUMP_IF_EQUAL, 1, 0, first), (JUMP, 0, 0, len(behind)), *behind]
    return [*found, (RETURN, 0, 0, GATE)]


def words_of(address: str) -> Words:
    """An address in words; one of IPv4 that is written as one of IPv6 (`::ffff:10.0.0.1`) is one of IPv4."""
    plain = plain_address(address)
    family = socket.AF_INET6 if ":" in plain else socket.AF_INET
    raw = socket.inet_pton(family, plain)
    return struct.unpack(f">{len(raw) // 4}I", raw)


def plain_address(address: str) -> str:
    """Without the name of a network interface, and IPv4 as IPv4: as a socket of both tells whom it has accepted."""
    address = address.partition("%")[0]
    mapped = address.lower().startswith("::ffff:") and "." in address
    return address.rpartition(":")[2] if mapped else address
