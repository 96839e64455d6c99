"""What the other tests here lean on: hosts are hosts, a fault does what its name says, and nothing of a rig is left."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from launching import ROOT, await_true
from rig import Host, Rig

Hosts = tuple[Host, ...]
Ssh = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ssh(rig: Rig, environment: dict[str, str], hosts: Hosts) -> Ssh:
    """Run a command on a host over ssh, from the login machine."""

    def run(host: Host, command: str, *options: str, **keywords: object) -> subprocess.CompletedProcess[str]:
        words = [*rig.login.words, "ssh", "-o", "ConnectTimeout=1", *options, host.name, command]
        return subprocess.run(words, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    return run


# ---- hosts are hosts
def test_a_host_has_a_name_and_addresses_of_its_own(hosts: Hosts) -> None:
    assert [host.run("hostname").stdout for host in hosts] == ["host1\n", "host2\n", "host3\n"]
    assert hosts[0].run("hostname -I").stdout.split() == ["10.77.0.11", "fd77::11"]


def test_a_host_has_a_disk_of_its_own(hosts: Hosts, tmp_path: Path) -> None:
    for place in ("/tmp", "/var/tmp", "/home/tb", "/dev/shm"):
        hosts[0].write(f"{place}/here", b"x")

    assert hosts[0].run("ls /tmp /var/tmp /home/tb /dev/shm").stdout.split().count("here") == 4
    assert "here" not in hosts[1].run("ls /tmp /var/tmp /home/tb /dev/shm").stdout
    assert not Path("/tmp/here").exists()
    assert hosts[0].read("/tmp/here") == b"x"
    assert hosts[0].files() == ["/dev/shm/here", "/home/tb/here", "/tmp/here", "/var/tmp/here"]
    assert hosts[0].run(["ls", tmp_path], check=False).returncode


def test_nothing_but_the_own_disk_can_be_written(hosts: Hosts) -> None:
    assert "Read-only" in hosts[0].run("touch /etc/x /usr/x", "root", check=False).stderr


def test_a_host_has_processes_of_its_own(hosts: Hosts) -> None:
    pid = int(hosts[0].run("sleep 1000 >/dev/null 2>&1 & echo $!").stdout)

    (process,) = hosts[0].processes()
    assert process == hosts[0].process(pid)
    assert hosts[1].processes() == []
    assert hosts[1].run(f"kill -0 {pid}", "root", check=False).returncode
    process.kill()


def test_a_first_process_reaps_orphans(hosts: Hosts) -> None:
    hosts[0].run("(sleep 0 &) ; (true &)")

    await_true(lambda: "defunct" not in hosts[0].run("ps ax").stdout, "no zombie")


def test_the_checkout_is_not_there_but_its_python_is(hosts: Hosts) -> None:
    assert hosts[0].run(["test", "-e", ROOT / "launcher"], check=False).returncode
    assert (
        hosts[0].run([sys.executable, "-c", "import numpy, sys; print(sys.executable)"]).stdout.strip()
        == sys.executable
    )
    assert "Read-only" in hosts[0].run(["touch", f"{sys.prefix}/x"], "root", check=False).stderr


def test_ssh_reaches_a_host_by_name(hosts: Hosts, ssh: Ssh) -> None:
    assert ssh(hosts[1], "hostname; id -un").stdout == "host2\ntb\n"
    assert ssh(hosts[1], "id -un", "-l", "root").stdout == "root\n"
    assert ssh(hosts[1], "python3 -c 'print(3)'").stdout == "3\n"


@pytest.mark.parametrize("target", ["10.77.0.12", "fd77::12", "host2", "host2-v6"])
def test_hosts_reach_each_other(hosts: Hosts, target: str) -> None:
    assert reaches(hosts[0], target)


def reaches(host: Host, target: str, port: int = 22) -> bool:
    """Whether a connection from the host succeeds."""
    return not host.run(f"timeout 0.5 bash -c '</dev/tcp/{target}/{port}'", check=False).returncode
