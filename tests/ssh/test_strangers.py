"""A machine that is none of a run's hosts cannot connect to its workers, whatever it tries and when."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rig import Host, Rig
from rig.processes import command_of
from support.launching import PROGRAMS, Launch

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]

GREETING = {"command": ["python", "greeting.py"], "sync": str(PROGRAMS), "defaults": {"python": sys.executable}}
RESET = "ConnectionResetError"
DIAL = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) as connection:
        print(connection.recv(100).decode())
except OSError as error:
    print(type(error).__name__)
"""


def dial(source: Host, host: Host, port: int, ipv6: bool = False) -> str:
    """What is said on one host to somebody who connects from another one, or the error."""
    return source.run([sys.executable, "-c", DIAL, host.addresses[ipv6], str(port)]).stdout.strip()


def two_listening(launch: Start, cluster: Cluster, *hosts: Any, **keys: Any) -> tuple[Launch, int, int]:
    """A run of two workers, whose programs listen by now, and their ports."""
    started = launch(*cluster(*hosts, **keys, **GREETING))
    started.await_log(b"listening", "worker-0", "worker-1")
    first, second = ports(started).values()
    return started, first, second


def ports(started: Launch) -> dict[str, int]:
    """Of each task."""
    started.await_event("ports_reserved", count=2)
    reserved = [each["ports"] for each in started.events if each["type"] == "ports_reserved"]
    return dict(sorted((task, port) for each in reserved for task, port in each.items()))


def refused(started: Launch) -> set[tuple[str, str]]:
    """Where somebody was refused, and who."""
    return {(each["host"], each["address"]) for each in started.events if each["type"] == "stranger_refused"}


def stopped(started: Launch) -> str:
    started.signal(15)
    assert started.wait() == 143
    return started.stderr


def test_the_hosts_of_a_run_reach_each_others_workers_and_a_third_one_reaches_none(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    started, first, second = two_listening(launch, cluster, *hosts[:2])

    for _ in range(5):
        assert dial(hosts[1], hosts[0], first) == dial(hosts[0], hosts[1], second) == "worker"
        assert dial(hosts[0], hosts[0], first) == "worker"
        assert dial(hosts[2], hosts[0], first) == dial(hosts[2], hosts[1], second) == RESET
        assert dial(hosts[2], hosts[0], first, ipv6=True) == RESET
    said = stopped(started)
    strangers = hosts[2].addresses
    assert refused(started) == {("host1", strangers[0]), ("host1", strangers[1]), ("host2", strangers[0])}
    assert said.count(f"worker 1 on host2: a connection from {strangers[0]} was refused") == 1


def test_the_launching_machine_is_known_as_one_of_the_hosts(
    launch: Start, cluster: Cluster, hosts: Hosts, rig: Rig
) -> None:
    started, first, second = two_listening(launch, cluster, {"host": "localhost"}, hosts[0])
    here = [*rig.login.words, sys.executable, "-c", DIAL]
    dialled = [[rig.login.addresses[0], first], [hosts[0].addresses[0], second], ["127.0.0.1", first]]

    said = [subprocess.check_output([*here, *map(str, place)], text=True).strip() for place in dialled]
    assert said == ["worker"] * 3
    assert hosts[0].run([sys.executable, "-c", DIAL, rig.login.addresses[0], str(first)]).stdout == "worker\n"
    assert hosts[1].run([sys.executable, "-c", DIAL, rig.login.addresses[0], str(first)]).stdout == f"{RESET}\n"
    stopped(started)


@pytest.mark.usefixtures("ipv6")
def test_hosts_that_dial_each_other_over_ipv6_are_known_by_those_addresses(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    pairs = [{"host": host.name, "address": host.addresses[1]} for host in hosts[:2]]
    started, first, second = two_listening(launch, cluster, *pairs)

    assert dial(hosts[1], hosts[0], first, ipv6=True) == dial(hosts[0], hosts[1], second, ipv6=True) == "worker"
    assert dial(hosts[2], hosts[0], first, ipv6=True) == dial(hosts[2], hosts[0], first) == RESET
    stopped(started)


def test_a_jump_host_that_is_none_of_the_runs_reaches_no_worker(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    with hosts[1].behind(hosts[0]), hosts[2].behind(hosts[0]):
        started, first, second = two_listening(launch, cluster, *hosts[1:])

        assert dial(hosts[2], hosts[1], first) == dial(hosts[1], hosts[2], second) == "worker"
        assert dial(hosts[0], hosts[1], first) == dial(hosts[0], hosts[2], second) == RESET
        stopped(started)
    assert refused(started) == {(host.name, hosts[0].addresses[0]) for host in hosts[1:]}


OUTSIDE = "10.77.0.112"
TRANSLATED = f"""
add table ip outside
add chain ip outside out {{ type nat hook postrouting priority 100; }}
add rule ip outside out ip daddr 10.77.0.11 snat to {OUTSIDE}
"""


@pytest.fixture
def host2_behind_nat(hosts: Hosts) -> Iterator[Host]:
    """What comes from host2 to host1 has another source address there than host2 knows of."""
    hosts[1].run(["ip", "address", "add", f"{OUTSIDE}/32", "dev", "lo"], user="root")
    hosts[1].run(["nft", TRANSLATED], user="root")
    yield hosts[1]
    hosts[1].run(["nft", "delete table ip outside"], user="root")
    hosts[1].run(["ip", "address", "del", f"{OUTSIDE}/32", "dev", "lo"], user="root")


def test_a_host_behind_nat_is_known_by_the_address_that_the_others_see(
    launch: Start, cluster: Cluster, hosts: Hosts, host2_behind_nat: Host
) -> None:
    hosts[0].run(["ip", "route", "add", OUTSIDE, "via", hosts[1].addresses[0]], user="root")
    try:
        started, first, _ = two_listening(launch, cluster, *hosts[:2])

        assert dial(hosts[1], hosts[0], first) == "worker"
        hosts[1].run(["nft", "flush chain ip outside out"], user="root")
        assert dial(hosts[1], hosts[0], first) == RESET
        assert f"a connection from {hosts[1].addresses[0]} was refused" in stopped(started)
    finally:
        hosts[0].run(["ip", "route", "del", OUTSIDE], user="root")


def test_each_attempt_finds_out_anew_where_the_hosts_connect_from(
    launch: Start, cluster: Cluster, hosts: Hosts, host2_behind_nat: Host
) -> None:
    hosts[0].run(["ip", "route", "add", OUTSIDE, "via", hosts[1].addresses[0]], user="root")
    try:
        started, first, _ = two_listening(launch, cluster, *hosts[:2], restart={"max_restarts": 1, "backoff": "10ms"})
        assert dial(hosts[1], hosts[0], first) == "worker"
        hosts[1].run(["nft", "flush chain ip outside out"], user="root")
        next(each for each in hosts[0].processes() if "greeting.py" in " ".join(command_of(each))).kill()

        started.await_log(b"listening", "worker-0", "worker-1", attempt=1)
        assert dial(hosts[1], hosts[0], first) == "worker"
        hosts[1].run(["nft", TRANSLATED], user="root")
        assert dial(hosts[1], hosts[0], first) == RESET
        assert f"a connection from {OUTSIDE} was refused" in stopped(started)
    finally:
        hosts[0].run(["ip", "route", "del", OUTSIDE], user="root")


LISTENING = """
for table in ("tcp", "tcp6"):
    for line in open(f"/proc/net/{table}").readlines()[1:]:
        words = line.split()
        if words[3] == "0A":
            print(int(words[1].rpartition(":")[2], 16))
"""
"""The ports at which somebody listens there."""


def test_nothing_listens_but_sshd_and_the_ports_of_the_tasks(
    launch: Start, cluster: Cluster, hosts: Hosts, rig: Rig
) -> None:
    started, first, second = two_listening(launch, cluster, {"host": "localhost"}, hosts[0])
    here = subprocess.check_output([*rig.login.words, sys.executable, "-c", LISTENING], text=True)

    assert {int(port) for port in here.split()} == {first}
    assert {int(port) for port in hosts[0].run([sys.executable, "-c", LISTENING]).stdout.split()} == {22, second}
    stopped(started)


JOIN = """
import socket, sys
for address, family in (("", 2), ("127.0.0.1", 2), (sys.argv[2], 2), ("", 10), ("::1", 10), (sys.argv[3], 10)):
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        try:
            with socket.socket(family) as each:
                each.setsockopt(socket.SOL_SOCKET, option, 1)
                if family == 10:
                    each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                each.bind((address, int(sys.argv[1])))
                print("bound to", address or "all", "of family", family)
        except OSError:
            pass
"""
"""Tries to get a port at any address, and tells where it has."""


def test_another_user_of_a_host_can_neither_take_nor_join_a_port_at_which_nobody_listens_yet(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    late = {**GREETING, "command": ["python", "greeting.py", "late"], "network": {"open": True}}
    started = launch(*cluster(*hosts[:2], **late))
    started.await_log(b"not yet", "worker-0", "worker-1")
    words = [sys.executable, "-c", JOIN, str(ports(started)["worker-0"]), *hosts[0].addresses]

    assert hosts[0].run(words, user="eve").stdout == ""
    stopped(started)
