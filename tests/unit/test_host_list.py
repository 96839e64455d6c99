"""What `--workers` and `--hosts` mean: clusters without a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.host_list import listed_cluster, local_cluster
from launcher.cluster.spec import Task
from launcher.errors import UsageError

REPOSITORY = Path(__file__).resolve().parents[2]
TWO_LOCAL = (Host("localhost", (Task("worker", 0), Task("worker", 1))),)


def test_workers_without_a_file_are_local_workers() -> None:
    assert local_cluster(2) == Cluster("local", TWO_LOCAL)


def test_no_workers_without_a_file_are_refused() -> None:
    with pytest.raises(UsageError, match="--workers 0: a run needs at least 1 worker"):
        local_cluster(0)


def test_workers_without_a_file_need_no_yaml() -> None:
    program = (
        "import sys; from launcher.cluster.host_list import local_cluster; local_cluster(2); "
        "print(*{'yaml', 'msgspec', 'tensorflow', 'launcher.cluster.file.yaml_nodes'} & sys.modules.keys())"
    )

    result = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)

    assert result.stdout.strip() == ""


def test_each_host_of_a_list_runs_as_many_workers_as_it_says_or_one() -> None:
    assert listed_cluster("gpu-a:2,me@gpu-b,localhost:1") == Cluster(
        "hosts",
        (
            Host("gpu-a", (Task("worker", 0), Task("worker", 1))),
            Host("me@gpu-b", (Task("worker", 2),)),
            Host("localhost", (Task("worker", 3),)),
        ),
    )


def test_localhost_alone_is_the_same_as_workers() -> None:
    assert listed_cluster("localhost:2") == local_cluster(2)


@pytest.mark.parametrize(
    ("entry", "host"),
    [
        ("10.0.0.1:2", "10.0.0.1"),
        ("[fd00::2]:2", "fd00::2"),
        ("me@[fe80::1%eth0]:2", "me@fe80::1%eth0"),
        ("gpu_a-1.example.org:2", "gpu_a-1.example.org"),
    ],
)
def test_a_host_of_a_list_is_whatever_ssh_takes(entry: str, host: str) -> None:
    assert [(each.name, len(each.tasks)) for each in listed_cluster(entry).hosts] == [(host, 2)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "--hosts: an empty place in the list; allowed is HOST or HOST:WORKERS"),
        ("a:2,,b:2", "--hosts: an empty place in the list; allowed is HOST or HOST:WORKERS"),
        ("a:two", "--hosts a:two: this is no host with a number of workers; allowed is HOST or HOST:WORKERS"),
        ("a:2, b:2", "--hosts  b:2: this is no host with a number of workers"),
        ("fd00::2", "--hosts fd00::2: this is no host with a number of workers"),
        ("fd00::2", "an IPv6 address stands in brackets: [fd00::2]:4"),
        ("-oProxyCommand=x", "--hosts -oProxyCommand=x: this is no host with a number of workers"),
        ("a\x1b[2J:2", "this is no host with a number of workers"),
        ("ssh://a:22", "--hosts ssh://a:22: this is no host with a number of workers"),
        ("a:-1", "--hosts a:-1: this is no host with a number of workers"),
        ("a:0", "--hosts a:0: 0 workers; allowed is a whole number, 1 to 1000"),
        ("a:1001", "--hosts a:1001: 1001 workers; allowed is a whole number, 1 to 1000"),
        ("a:2,b,a:1", "--hosts a:1: host a a second time; name each host once, with all of its workers"),
    ],
)
def test_a_mistake_in_a_list_of_hosts_is_told_with_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        listed_cluster(text)

    assert said in str(raised.value)


def test_a_password_in_a_list_of_hosts_is_not_repeated() -> None:
    with pytest.raises(UsageError) as raised:
        listed_cluster("me:hunter2@gpu-a:2")

    assert "hunter2" not in str(raised.value)


@given(st.text(st.sampled_from("ab01:,@[]-. %\x00\xe9"), max_size=12))
def test_any_text_is_a_cluster_or_a_mistake(text: str) -> None:
    try:
        hosts = listed_cluster(text).hosts
    except UsageError:
        return
    assert len(hosts) == text.count(",") + 1
    assert len({host.name for host in hosts}) == len(hosts)
    assert all(host.tasks and not host.name.startswith("-") for host in hosts)
