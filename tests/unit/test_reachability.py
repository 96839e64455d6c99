"""Which address of a host the others dial: the likeliest that all of them have reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from launcher.cluster.cluster import Host
from launcher.cluster.spec import Task
from launcher.hosts.facts import HostFacts, candidates, same_machines, skewed_clocks, start_warnings
from launcher.hosts.reachability import Proof
from launcher.on_host.agent.messages import Ready, Target

A, B, C = (Host(name, (Task("worker", n),)) for n, name in enumerate(["a", "b", "c"]))
LOCAL = Host("localhost", (Task("worker", 9),))
PORTS = {"a": {Task("worker", 0): 2001}, "b": {Task("worker", 1): 2002}, "c": {Task("worker", 2): 2003}}
FACTS = {
    "a": HostFacts(addresses=("172.17.0.1", "10.0.0.1"), client="10.0.0.9", server="10.0.0.1"),
    "b": HostFacts(addresses=("10.0.0.2", "fd00::2"), client="10.0.0.9", server="10.0.0.2"),
    "c": HostFacts(addresses=("10.0.0.3",), client="10.0.0.9", server="10.0.0.3"),
    "localhost": HostFacts(addresses=("192.168.1.9", "10.0.0.9")),
}


def proof(*hosts: Host, facts: Mapping[str, HostFacts] = FACTS) -> Proof:
    names = {host.name for host in hosts}
    return Proof(hosts, {name: facts[name] for name in names}, PORTS, "word")


def dial(under_way: Proof, broken: Mapping[tuple[str, str], str]) -> None:
    """Answer for the hosts until the proof is over; `broken`: (dialler, address) -> why."""
    while targets := under_way.targets():
        answers = {
            dialler: {target.id: broken.get((dialler, target.address), "") for target in each}
            for dialler, each in targets.items()
        }
        under_way.add_results(answers)


CANDIDATES: dict[str, tuple[Host, tuple[str, ...]]] = {
    "where ssh came to, then the interfaces": (A, ("10.0.0.1", "172.17.0.1")),
    "the file's address alone": (Host("a", (), address="gpu-a.example"), ("gpu-a.example",)),
    "this machine: where the others see it come from": (LOCAL, ("10.0.0.9", "192.168.1.9")),
}


@pytest.mark.parametrize(("host", "expected"), CANDIDATES.values(), ids=CANDIDATES)
def test_candidates_are_in_order_of_likelihood(host: Host, expected: tuple[str, ...]) -> None:
    assert candidates(host, FACTS) == expected


def test_this_machine_is_not_looked_for_at_its_jump_host() -> None:
    behind_a_jump_host = {**FACTS, "a": HostFacts(client="10.9.9.9", server="10.0.0.1")}

    assert candidates(LOCAL, {"a": behind_a_jump_host["a"], "localhost": FACTS["localhost"]}) == (
        "192.168.1.9",
        "10.0.0.9",
    )


def test_loopback_is_no_candidate() -> None:
    facts = {"a": HostFacts(server="127.0.0.2", addresses=("10.0.0.1",))}

    assert candidates(A, facts) == ("10.0.0.1",)


def test_every_host_dials_every_one_in_one_round() -> None:
    targets = proof(A, B, C).targets()

    assert {dialler: [target.id for target in each] for dialler, each in targets.items()} == {
        "a": ["a", "b", "c"],
        "b": ["a", "b", "c"],
        "c": ["a", "b", "c"],
    }
    assert targets["a"][1] == Target("b", "10.0.0.2", 2002, "word b")


def test_a_host_with_several_workers_has_to_reach_itself() -> None:
    twin = Host("a", (Task("worker", 0), Task("worker", 1)), address="10.0.0.1")
    under_way = proof(twin, B)
    dial(under_way, {("a", "10.0.0.1"): "Connection refused"})

    assert under_way.failures[0].startswith("a cannot reach a at 10.0.0.1, port 2001: Connection refused\n")


def test_a_host_with_one_worker_need_not_reach_itself() -> None:
    under_way = proof(A, B)
    dial(under_way, {("a", "10.0.0.1"): "Connection refused"})

    assert under_way.addresses["a"] == "10.0.0.1"
    assert under_way.failures == []


def test_a_host_that_is_alone_dials_itself() -> None:
    alone = Host("a", (Task("worker", 0),), address="10.0.0.1")
    under_way = proof(alone)

    assert [target.address for target in under_way.targets()["a"]] == ["10.0.0.1"]
    dial(under_way, {})
    assert under_way.addresses == {"a": "10.0.0.1"}


def test_addresses_that_all_reach_are_taken() -> None:
    under_way = proof(A, B, C)
    dial(under_way, {})

    assert under_way.addresses == {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}
    assert under_way.failures == []


def test_the_next_address_is_tried_where_one_host_cannot_reach_the_first() -> None:
    under_way = proof(A, B, C)
    dial(under_way, {("c", "10.0.0.1"): "Connection refused"})

    assert under_way.addresses["a"] == "172.17.0.1"
    assert under_way.failures == []


def test_a_host_that_one_other_cannot_reach_is_told_with_all_that_was_tried() -> None:
    under_way = proof(A, B, C)
    dial(under_way, {("c", "10.0.0.1"): "no answer in 3 s", ("c", "172.17.0.1"): "Connection refused"})

    assert under_way.failures == [
        "c cannot reach a at 10.0.0.1, port 2001: no answer in 3 s\n"
        "  c cannot reach a at 172.17.0.1, port 2001: Connection refused\n"
        "  What to do: open that port in the firewall (`ports` keeps to a range of them), or write another `address` "
        "for a."
    ]
    assert under_way.addresses.keys() == {"b", "c"}


def test_a_host_without_any_address_is_told() -> None:
    nowhere = {**FACTS, "a": HostFacts()}
    under_way = proof(A, B, facts=nowhere)
    dial(under_way, {})

    assert under_way.failures == ["a: no address was found at which other hosts could reach it; write its `address`"]


def test_one_machine_under_two_names_is_found() -> None:
    facts = {"a": HostFacts(machine="x"), "b": HostFacts(machine="y"), "c": HostFacts(machine="x")}

    assert same_machines(facts) == [("a", "c")]


def test_hosts_that_do_not_say_which_machine_they_are_are_not_the_same() -> None:
    assert same_machines({"a": HostFacts(), "b": HostFacts()}) == []


def test_a_clock_a_day_ahead_is_found_and_one_of_a_second_is_not() -> None:
    assert skewed_clocks({"a": HostFacts(ahead=86400), "b": HostFacts(ahead=-1)}) == {"a": 86400}


def test_a_start_tells_of_wrong_clocks_and_of_public_addresses_that_are_dialled() -> None:
    facts = {"a": HostFacts(ahead=-7200, addresses=("8.8.8.8",)), "b": HostFacts(ahead=1)}

    assert start_warnings(facts, {"a": "10.0.0.1", "b": "[2600::1]"}, ("a", "b")) == [
        "a: its clock is 2 h behind this machine's",
        "b: [2600::1] is a public address, and TensorFlow's server asks nobody for a password: let a firewall keep "
        "others off the workers' ports",
    ]


def test_a_public_address_is_no_matter_where_only_the_hosts_of_the_run_may_connect() -> None:
    facts, addresses = {"a": HostFacts(), "b": HostFacts()}, {"a": "8.8.8.8", "b": "[2600::1]"}

    assert start_warnings(facts, addresses, ()) == []
    assert [line[:2] for line in start_warnings(facts, addresses, ("b",))] == ["b:"]


TOLD: dict[str, Any] = {
    "hostname": "gpu-a",
    "python": "3.11.2",
    "pid": 1,
    "guard": 2,
    "cpus": 8,
    "home": "/home/me",
    "machine": "m",
    "addresses": ["10.0.0.1"],
    "environment": {"http_proxy": "http://p"},
    "time": 110.0,
}
CONNECTIONS = {"over ssh": ("10.0.0.9 50000 10.0.0.1 22", "10.0.0.9", "10.0.0.1"), "without ssh": ("", "", "")}


@pytest.mark.parametrize(("connection", "client", "server"), CONNECTIONS.values(), ids=CONNECTIONS)
def test_what_an_agent_told_is_read(connection: str, client: str, server: str) -> None:
    facts = HostFacts.of(Ready(**TOLD, ssh_connection=connection), now=100.0)

    assert (facts.client, facts.server, facts.ahead, facts.home) == (client, server, 10.0, "/home/me")
