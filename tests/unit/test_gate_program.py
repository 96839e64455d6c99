"""Which addresses the gate before a worker's port admits: the program, run as the kernel runs it."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.on_host.agent.gate import Strangers
from launcher.on_host.agent.gate_program import (
    AND,
    JUMP,
    JUMP_IF_EQUAL,
    LOAD_BYTE,
    LOAD_WORD,
    MOST_INSTRUCTIONS,
    NETWORK,
    RETURN,
    SHIFT_RIGHT,
    admission,
    plain_address,
)

IPV4 = st.ip_addresses(v=4).map(str)
IPV6 = st.ip_addresses(v=6).filter(lambda address: address.ipv4_mapped is None).map(str)
NEAR = st.tuples(st.sampled_from(["10.0.0.%d", "fd77::%d", "2001:db8::%d:1"]), st.integers(0, 9)).map(
    lambda pair: pair[0] % pair[1]
)
"""Addresses that begin or end alike."""
ADDRESSES = IPV4 | IPV6 | NEAR


def packet_from(address: str) -> bytes:
    """The header of a packet's IPv4 or IPv6, and some of what follows."""
    source = ipaddress.ip_address(address)
    if source.version == 4:
        return bytes([0x45]) + bytes(11) + source.packed + bytes(24)
    return bytes([0x60]) + bytes(7) + source.packed + bytes(36)


def chosen(program: bytes, packet: bytes) -> int:
    """What the kernel makes of a program and a packet."""
    instructions = [struct.unpack("HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]
    at, value = 0, 0
    while True:
        operation, if_so, if_not, number = instructions[at]
        at += 1
        if operation == RETURN:
            return int(number)
        if operation in (LOAD_BYTE, LOAD_WORD):
            start, size = number - NETWORK, {LOAD_BYTE: 1, LOAD_WORD: 4}[operation]
            assert 0 <= start <= len(packet) - size
            value = int.from_bytes(packet[start : start + size], "big")
        elif operation == AND:
            value &= number
        elif operation == SHIFT_RIGHT:
            value >>= number
        elif operation == JUMP:
            at += number
        else:
            assert operation == JUMP_IF_EQUAL
            at += if_so if value == number else if_not


def admits(addresses: Sequence[str], source: str) -> bool:
    return chosen(admission(addresses), packet_from(source)) == 1


@pytest.mark.parametrize("source", ["127.0.0.1", "127.255.3.4", "::1"])
def test_loopback_is_always_admitted(source: str) -> None:
    assert admits([], source)


@pytest.mark.parametrize(
    "source", ["10.0.0.1", "126.255.255.255", "128.0.0.0", "0.0.0.0", "::", "::2", "::ffff:10.0.0.1"]
)
def test_nobody_else_is_admitted_to_a_run_of_one_machine(source: str) -> None:
    assert not admits([], source)


@given(st.lists(ADDRESSES, max_size=30), st.lists(ADDRESSES, max_size=10))
def test_the_addresses_of_the_run_are_admitted_and_no_other(hosts: list[str], others: list[str]) -> None:
    allowed = {ipaddress.ip_address(host) for host in hosts}

    for source in (*hosts, *others):
        address = ipaddress.ip_address(source)
        assert admits(hosts, source) == (address in allowed or address.is_loopback)


def test_an_address_of_ipv4_that_an_ipv6_socket_has_accepted_is_one_of_ipv4() -> None:
    assert admits(["::ffff:10.0.0.1"], "10.0.0.1")
    assert plain_address("::FFFF:10.0.0.1") == "10.0.0.1"


def test_an_address_of_one_link_counts_without_its_interface() -> None:
    assert admits(["fe80::1%eth0"], "fe80::1")


def test_a_thousand_hosts_of_two_networks_fit_into_the_kernels_limit() -> None:
    pairs = [(f"10.0.{n // 250}.{n % 250}", f"fd77::{n:x}") for n in range(1000)]
    addresses = [address for pair in pairs for address in pair]

    assert len(admission(addresses)) // 8 <= MOST_INSTRUCTIONS
    assert admits(addresses, "10.0.2.99")
    assert not admits(addresses, "10.0.2.250")


def test_more_addresses_than_the_kernel_takes_are_refused() -> None:
    with pytest.raises(ValueError, match="the kernel takes 4096"):
        admission([f"10.{n // 65536}.{n // 256 % 256}.{n % 256}" for n in range(3000)])


def test_a_stranger_is_told_of_once() -> None:
    strangers = Strangers()

    assert [strangers.is_to_be_reported(address) for address in ("10.0.0.1", "10.0.0.2", "10.0.0.1")] == [
        True,
        True,
        False,
    ]


def test_a_flood_of_strangers_is_told_of_in_few_words() -> None:
    strangers = Strangers()
    told = [
        number for number in range(100_000) if strangers.is_to_be_reported(socket.inet_ntoa(struct.pack(">I", number)))
    ]

    assert len(told) < 20
    assert len(strangers) < 5000
