"""What the network means for a step, and how it is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.spec import Task
from launcher.doctor.checks.network import gradients, ring_seconds, rounds
from launcher.doctor.examination import Examination, Gradients, HostExamination
from launcher.on_host.probe.answers import Speed
from launcher.on_host.probe.throughput import steady_rate


@pytest.mark.parametrize("count", [2, 3, 8])
def test_every_host_sends_to_every_other_one_and_never_two_into_the_same(count: int) -> None:
    hosts = [f"h{n}" for n in range(count)]
    plan = rounds(hosts)

    assert sorted(pair for each in plan for pair in each) == sorted(
        (one, other) for one in hosts for other in hosts if one != other
    )
    for each in plan:
        assert len({sender for sender, _ in each}) == len({receiver for _, receiver in each}) == count


def test_many_hosts_are_measured_as_a_ring() -> None:
    hosts = [f"h{n}" for n in range(9)]

    assert rounds(hosts) == [[(host, hosts[(n + 1) % 9]) for n, host in enumerate(hosts)]]


def ring(workers: int, names: Sequence[str], speeds: Mapping[tuple[str, str], Speed]) -> Examination:
    """Hosts that share 100 MB of gradients among so many workers, all on the first of them."""
    tasks = tuple(Task("worker", n) for n in range(workers))
    hosts = tuple(Host(name, tasks if name == names[0] else ()) for name in names)
    return Examination(Cluster("test", hosts), tuple(map(HostExamination, hosts)), Gradients(1e8, ""), speeds=speeds)


def test_a_ring_waits_for_its_slowest_link() -> None:
    speeds = {("a", "b"): Speed(1e9, 1e-3), ("b", "a"): Speed(1e8, 1e-4)}

    assert ring_seconds(ring(2, ["a", "b"], speeds)) == pytest.approx(1.0 + 2 * 0.5e-3)
    assert ring_seconds(ring(4, ["a", "b"], speeds)) == pytest.approx(1.5 + 6 * 0.5e-3)


def test_nothing_is_predicted_where_a_link_is_not_known() -> None:
    assert ring_seconds(ring(2, ["a", "b"], {("a", "b"): Speed(1e9, 1e-3)})) is None
    assert ring_seconds(ring(2, ["a"], {})) is None


def test_the_size_of_the_gradients_is_known_said_or_supposed() -> None:
    assert gradients([["python", "-m", "training", "--epochs", "3"]], None).size == 642_216
    assert gradients([["python", "train.py"]], 98.0) == Gradients(98e6, "--gradient-mb")
    assert gradients([["python", "train.py"]], None).source.startswith("an example")


def test_the_time_in_which_tcp_gathers_speed_does_not_count() -> None:
    arrived = [(0.0, 0), (0.3, 10), (0.6, 300), (0.9, 600), (1.2, 900)]

    assert steady_rate(arrived) == pytest.approx(1000.0)


def test_what_arrived_at_once_has_a_speed_too() -> None:
    assert steady_rate([(0.0, 0), (0.5, 1000)]) == pytest.approx(2000.0)
    assert steady_rate([(0.0, 0), (0.0, 1000)]) > 0
