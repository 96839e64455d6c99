"""What the workers dial is found, and proven by all other hosts before anything starts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rig import Host, Rig
from support.launching import Launch

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]

TELL = ("--", "sh", "-c", 'echo "$TF_CONFIG"')


def addresses(started: Launch) -> list[str]:
    """Of the workers, without their ports."""
    assert started.succeeded()
    config = json.loads(started.log("worker-0"))
    return [address.rpartition(":")[0] for address in config["cluster"]["worker"]]


def test_several_workers_share_the_address_of_their_host(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster({"host": "host1", "workers": 2}, {"host": "host2", "workers": 2}), *TELL)

    assert addresses(started) == ["10.77.0.11", "10.77.0.11", "10.77.0.12", "10.77.0.12"]


def test_the_launching_machine_may_be_one_of_the_hosts(launch: Start, cluster: Cluster, hosts: Hosts, rig: Rig) -> None:
    started = launch(*cluster({"host": "localhost"}, {"host": "host1"}, {"host": "host2"}), *TELL)

    assert addresses(started) == [rig.login.addresses[0], "10.77.0.11", "10.77.0.12"]


@pytest.mark.usefixtures("ipv6")
def test_ipv6_addresses_of_the_cluster_file_stand_in_brackets(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    pairs = [{"host": host.name, "address": host.addresses[1]} for host in hosts[:2]]
    started = launch(*cluster(*pairs), *TELL)

    assert addresses(started) == ["[fd77::11]", "[fd77::12]"]


NO_IPV4 = """
add table ip cut
add chain ip cut in {{ type filter hook input priority 0; }}
add rule ip cut in ip saddr {} drop
"""


@pytest.fixture
def no_ipv4_from_host2_to_host1(hosts: Hosts) -> Iterator[None]:
    hosts[0].run(["nft", NO_IPV4.format(hosts[1].addresses[0])], user="root")
    yield
    hosts[0].run(["nft", "delete table ip cut"], user="root")


@pytest.mark.usefixtures("ipv6", "no_ipv4_from_host2_to_host1")
def test_another_address_is_found_where_the_first_is_not_reached(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster(*hosts[:2]), *TELL)

    assert addresses(started) == ["[fd77::11]", "[fd77::12]"]


def test_a_port_that_is_blocked_between_two_hosts_only_is_told_with_both(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    ports = {host.name: 21000 + n for n, host in enumerate(hosts)}
    hosts[0].block(hosts[1], ports["host1"])
    pairs = [
        {"host": name, "ports": port, "address": f"10.77.0.{11 + n}"} for n, (name, port) in enumerate(ports.items())
    ]
    started = launch(*cluster(*pairs), *TELL)

    assert started.wait() == 3
    assert "host2 cannot reach host1 at 10.77.0.11, port 21000: no answer in 3 s" in started.stderr
    assert "host3 cannot" not in started.stderr
    assert "open that port in the firewall" in started.stderr


def test_an_address_at_which_another_machine_answers_is_refused(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    pairs = [
        {"host": "host1", "ports": 21000, "address": "10.77.0.13"},
        {"host": "host2"},
        {"host": "host3", "ports": 21000},
    ]
    started = launch(*cluster(*pairs), *TELL)

    assert started.wait() == 3
    assert (
        "host2 cannot reach host1 at 10.77.0.13, port 21000: something else answers at this address" in started.stderr
    )


def test_one_machine_under_two_names_is_told(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster({"host": "host1"}, {"host": "root@host1"}), *TELL)

    assert started.wait() == 3
    assert "host1 and root@host1 are the same machine: list it once, with all of its workers" in started.stderr


@pytest.fixture
def names_of_host2(hosts: Hosts) -> Iterator[Path]:
    """The file that tells host2 who is who; what it says beside is put back afterwards."""
    files = [hosts[1].directory / name for name in ("hosts", "resolv.conf")]
    before = [path.read_text() for path in files]
    yield files[0]
    for path, text in zip(files, before, strict=True):
        path.write_text(text)


def named(hosts: Hosts) -> list[dict[str, str]]:
    """The first two hosts, the first with a name as its address."""
    return [{"host": hosts[0].name, "address": "first.example"}, {"host": hosts[1].name}]


def test_a_name_counts_where_one_of_its_addresses_answers(
    launch: Start, cluster: Cluster, hosts: Hosts, names_of_host2: Path
) -> None:
    with names_of_host2.open("a") as file:
        file.write("10.77.0.13 first.example\nfd77::13 first.example\n10.77.0.11 first.example\n")
    started = launch(*cluster(*named(hosts)), *TELL)

    assert addresses(started) == ["first.example", "10.77.0.12"]


def test_a_name_none_of_whose_addresses_answers_is_told_with_all_of_them(
    launch: Start, cluster: Cluster, hosts: Hosts, names_of_host2: Path
) -> None:
    with names_of_host2.open("a") as file:
        file.write("10.77.0.13 first.example\n10.77.0.12 first.example\n")
    started = launch(*cluster(*named(hosts)), *TELL)

    assert started.wait() == 3
    assert re.search(
        r"host2 cannot reach host1 at first.example, port \d+: "
        r"10.77.0.1(2|3): Connection refused; 10.77.0.1(3|2): Connection refused",
        started.stderr,
    )


def test_a_name_that_a_host_does_not_know_is_told_with_the_remedy(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    started = launch(*cluster(*named(hosts)), *TELL)

    assert started.wait() == 3
    assert "host2 cannot resolve the name first.example: " in started.stderr
    assert "What to do: write an IP address as the `address` of host1, or put the name into DNS" in started.stderr
    assert "firewall" not in started.stderr


def test_a_dns_that_does_not_answer_does_not_stop_the_agent(
    launch: Start, cluster: Cluster, hosts: Hosts, names_of_host2: Path
) -> None:
    (names_of_host2.parent / "resolv.conf").write_text("nameserver 10.77.0.13\noptions timeout:30\n")
    hosts[2].block(hosts[1], 53)
    started = launch(*cluster(*named(hosts), timeouts={"lease": "2s", "start": "10s"}), *TELL)

    assert started.wait() == 3
    assert re.search(r"host2 cannot resolve the name first.example: no answer in \d+ s", started.stderr)
    assert "no sign of life" not in started.stderr


SLOW_DNS = """
import socket, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind(("", 53))
    open("/tmp/bound", "w").close()
    for _ in range(2):  # A and AAAA
        query, client = server.recvfrom(512)
        question = query[12:]
        asked = question[: question.index(0) + 5]
        found = b"\\xc0\\x0c" + asked[-4:] + bytes([0, 0, 0, 9, 0, 4, 10, 77, 0, 11]) if asked[-3] == 1 else b""
        time.sleep(2)  # four seconds in all
        server.sendto(query[:2] + bytes([129, 128, 0, 1, 0, bool(found), 0, 0, 0, 0]) + asked + found, client)
"""


def test_a_dns_that_is_slow_is_waited_for(launch: Start, cluster: Cluster, hosts: Hosts, names_of_host2: Path) -> None:
    (names_of_host2.parent / "resolv.conf").write_text(f"nameserver {hosts[2].addresses[0]}\n")
    hosts[2].write("/tmp/dns.py", SLOW_DNS.encode())
    hosts[2].run("python3 /tmp/dns.py >/dev/null 2>&1 </dev/null & until [ -e /tmp/bound ]; do sleep .01; done", "root")
    started = launch(*cluster(*named(hosts)), *TELL)

    assert addresses(started) == ["first.example", "10.77.0.12"]
