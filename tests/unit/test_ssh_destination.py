"""What is said of the place where ssh goes for a host."""

from __future__ import annotations

import pytest

from launcher.hosts.access import ssh_destination
from launcher.hosts.events import HostAwaited

PLAIN = "host gpu-b\nuser me\nhostname 10.77.0.12\nport 22\nconnecttimeout 10\n"


@pytest.mark.parametrize(
    ("told", "host", "found"),
    [
        pytest.param(PLAIN, "gpu-b", "10.77.0.12", id="an alias"),
        pytest.param(PLAIN, "10.77.0.12", "", id="an address"),
        pytest.param(PLAIN, "me@10.77.0.12", "", id="a user at an address"),
        pytest.param(PLAIN.replace("22", "2222"), "gpu-b", "10.77.0.12 port 2222", id="a port"),
        pytest.param(f"{PLAIN}proxyjump me@gate\n", "gpu-b", "10.77.0.12 through me@gate", id="a jump host"),
        pytest.param(f"{PLAIN}proxyjump none\n", "gpu-b", "10.77.0.12", id="no jump host, by name"),
        pytest.param("", "gpu-b", "", id="ssh could not say"),
    ],
)
def test_it_is_named_where_it_is_not_the_hosts_own_name(told: str, host: str, found: str) -> None:
    assert ssh_destination(told, host) == found


def test_a_host_is_waited_for_by_name_and_destination() -> None:
    assert HostAwaited("gpu-b", "10.77.0.12").line == "waiting for gpu-b (10.77.0.12)"
    assert HostAwaited("10.77.0.12", "").line == "waiting for 10.77.0.12"
