"""What the other tests here lean on: hosts are hosts, a fault does what its name says, and nothing of a rig is left."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from rig import Host, Rig
from rig.cable import HAS_IPV6
from rig.processes import command_of, has_ended
from support.launching import PATIENCE, ROOT, await_true

Hosts = tuple[Host, ...]
Ssh = Callable[..., subprocess.CompletedProcess[str]]
FAMILIES = 2 if HAS_IPV6 else 1
AT_ONCE = ("-o", "ConnectTimeout=1")
SOON = 0.3
"""Seconds in which a connection that is possible comes about, as a rule."""


def reaches(host: Host, target: str, port: int = 22, within: float = PATIENCE / 2) -> bool:
    """Whether a connection from the host comes about."""
    connecting = f"exec 3<>/dev/tcp/{target}/{port}; read -r -n 4 -u 3"
    return host.run(["timeout", str(within), "bash", "-c", connecting], check=False).returncode == 0


def is_cut_off(host: Host, target: str, port: int = 22) -> bool:
    """Whether no connection from the host comes about."""
    return not reaches(host, target, port, SOON)


@pytest.fixture
def ssh(rig: Rig, environment: dict[str, str], hosts: Hosts) -> Ssh:
    """Run a command on a host over ssh, from the login machine."""

    def run(host: Host, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        words = [*rig.login.words, "ssh", *options, "-o", f"ConnectTimeout={PATIENCE:.0f}", host.name, command]
        return subprocess.run(words, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    return run


@pytest.fixture
def session(rig: Rig, environment: dict[str, str], hosts: Hosts) -> Iterator[subprocess.Popen[str]]:
    """An ssh connection to host 1 that repeats what it is told."""
    words = [*rig.login.words, "ssh", "host1", "cat"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, env=environment, text=True, bufsize=1, **pipes) as process:
        assert repeats(process, "hello\n")
        yield process
        process.kill()


def repeats(process: subprocess.Popen[str], line: str) -> bool:
    """Whether a line comes back, once it does or the connection has ended."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(line)
    return process.stdout.readline() == line


# ---- hosts are hosts
def test_a_host_has_a_name_and_addresses_of_its_own(hosts: Hosts) -> None:
    assert [host.run("hostname").stdout for host in hosts] == ["host1\n", "host2\n", "host3\n"]
    assert hosts[0].run("hostname -I").stdout.split() == ["10.77.0.11", "fd77::11"][:FAMILIES]


def test_a_host_has_a_disk_of_its_own(hosts: Hosts, tmp_path: Path) -> None:
    files = ["/dev/shm/here", "/home/tb/here", "/tmp/here", "/var/tmp/here"]
    for file in files:
        hosts[0].write(file, b"x")

    assert hosts[0].files() == files
    assert hosts[0].read(files[0]) == b"x"
    assert hosts[1].files() == []
    assert not any(map(Path.exists, map(Path, files)))
    assert hosts[0].run(["ls", tmp_path], check=False).returncode


def test_the_disk_is_empty_again_after_each_test(hosts: Hosts) -> None:
    hosts[0].write("/home/tb/.config/deep/x", b"x")
    hosts[0].empty_disk()

    assert hosts[0].files() == []


def test_nothing_but_its_own_disk_can_be_written(hosts: Hosts) -> None:
    said = hosts[0].run(["touch", "/etc/x", "/usr/x", f"{sys.prefix}/x"], "root", check=False).stderr

    assert said.count("Read-only") == 3


def test_a_host_has_processes_of_its_own(hosts: Hosts) -> None:
    pid = int(hosts[0].run("setsid sleep 1000 >/dev/null 2>&1 & echo $!").stdout)

    (process,) = hosts[0].processes()
    assert process == hosts[0].process(pid)
    assert hosts[1].processes() == []
    process.kill()


def test_orphans_are_reaped(hosts: Hosts) -> None:
    hosts[0].run("(sleep 0.01 & sleep 0.02 &)")

    names = "cat /proc/[0-9]*/comm"
    await_true(lambda: "sleep" not in hosts[0].run(names, check=False).stdout, "no process and no zombie")


def test_the_checkout_is_not_there_but_its_python_is(hosts: Hosts) -> None:
    assert hosts[0].run(["test", "-e", ROOT / "launcher"], check=False).returncode
    assert (
        hosts[0].run([sys.executable, "-c", "import numpy, sys; print(sys.executable)"]).stdout.strip()
        == sys.executable
    )


def test_ssh_reaches_a_host_by_address(rig: Rig, hosts: Hosts, environment: dict[str, str]) -> None:
    for address in hosts[1].addresses[:FAMILIES]:
        words = [*rig.login.words, "ssh", address, "hostname"]
        assert subprocess.run(words, env=environment, capture_output=True, text=True).stdout == "host2\n"


def test_ssh_reaches_a_host_by_name(hosts: Hosts, ssh: Ssh) -> None:
    assert ssh(hosts[1], "hostname; id -un").stdout == "host2\ntb\n"
    assert ssh(hosts[1], "id -un", "-l", "root").stdout == "root\n"
    assert ssh(hosts[1], "python3 -c 'print(3)'").stdout == "3\n"
    assert ssh(hosts[1], "tty", "-tt").stdout.startswith("/dev/pts/")


def test_hosts_reach_each_other(hosts: Hosts) -> None:
    for target in (*hosts[1].addresses[:FAMILIES], *("host2", "host2-v6")[:FAMILIES]):
        assert reaches(hosts[0], target)


def test_what_is_started_on_the_login_machine_gets_the_signals(rig: Rig) -> None:
    with subprocess.Popen([*rig.login.words, "sleep", "1000"]) as process:
        await_true(
            lambda: psutil.Process(process.pid).name() == "sleep", "it has taken the place of the words before it"
        )
        process.terminate()
    assert process.returncode == -15


# ---- the network goes wrong
def test_a_partition_is_silent_and_heals(hosts: Hosts, session: subprocess.Popen[str]) -> None:
    hosts[0].partition()
    assert is_cut_off(hosts[1], "host1")
    assert is_cut_off(hosts[0], "host2")
    assert hosts[0].run("cat /sys/class/net/eth0/carrier").stdout == "1\n"
    assert session.poll() is None

    hosts[0].heal()
    assert repeats(session, "still there\n")


def test_an_unplugged_host_sees_it(hosts: Hosts) -> None:
    hosts[0].unplug()
    assert hosts[0].run("cat /sys/class/net/eth0/carrier").stdout == "0\n"
    assert is_cut_off(hosts[1], "host1")

    hosts[0].plug()
    assert reaches(hosts[1], "host1")


def test_a_rate_is_kept(hosts: Hosts, ssh: Ssh) -> None:
    hosts[0].limit_rate("8mbit")
    start = time.monotonic()
    received = ssh(hosts[0], "head -c 400000 /dev/zero").stdout

    assert len(received) == 400_000
    assert time.monotonic() - start > 0.3, "more than a megabyte a second"


def test_a_delay_is_kept(hosts: Hosts) -> None:
    hosts[0].impair(delay_ms=40, jitter_ms=5)
    start = time.monotonic()
    assert reaches(hosts[1], "host1")

    assert time.monotonic() - start > 0.13, "a connection, and then sshd's greeting, take two ways each"


@pytest.mark.parametrize("loss", [1.0, 0.05])
def test_packets_are_lost(hosts: Hosts, ssh: Ssh, loss: float) -> None:
    hosts[0].impair(loss=loss)
    assert reaches(hosts[1], "host3")
    if loss == 1:
        assert is_cut_off(hosts[1], "host1")
        hosts[0].impair()

    assert ssh(hosts[0], "head -c 100000 /dev/zero").stdout == "\0" * 100_000


def test_one_host_is_blocked_from_one_other(hosts: Hosts) -> None:
    hosts[0].block(hosts[1])
    assert is_cut_off(hosts[0], "host2")
    assert is_cut_off(hosts[1], "host1-v6")
    assert reaches(hosts[0], "host3")
    assert reaches(hosts[1], "host3")

    hosts[0].unblock()
    assert reaches(hosts[1], "host1")


def test_one_port_is_blocked(hosts: Hosts) -> None:
    with hosts[1].sshd_options("Port 22", "Port 2222"):
        hosts[0].block(hosts[1], 2222)

        assert is_cut_off(hosts[0], "host2", 2222)
        assert reaches(hosts[0], "host2", 22)


# ---- the host goes wrong
def test_a_crash_is_silent_and_the_host_comes_back_empty(
    hosts: Hosts, ssh: Ssh, session: subprocess.Popen[str]
) -> None:
    hosts[0].write("/tmp/here", b"x")
    hosts[0].crash()
    assert not hosts[0].is_up
    assert hosts[0].processes() == []
    assert is_cut_off(hosts[1], "host1")
    assert session.poll() is None

    hosts[0].boot()
    assert ssh(hosts[0], "hostname").stdout == "host1\n", "the same name and the same key"
    assert hosts[0].files() == []
    assert not repeats(session, "still there?\n")


def test_a_frozen_host_stands_still(hosts: Hosts, session: subprocess.Popen[str]) -> None:
    hosts[0].freeze()
    assert {process.status() for process in hosts[0].processes()} == {psutil.STATUS_STOPPED}
    assert is_cut_off(hosts[1], "host1")

    hosts[0].thaw()
    assert repeats(session, "still there\n")


def test_a_full_disk_takes_nothing(hosts: Hosts) -> None:
    hosts[0].fill_disk()
    assert "No space left" in hosts[0].run("echo >/home/tb/x", check=False).stderr

    hosts[0].free_disk()
    hosts[0].write("/home/tb/x", b"x")


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_clock_goes_wrong(hosts: Hosts, ssh: Ssh, seconds: int) -> None:
    hosts[0].skew_clock(seconds)
    assert abs(int(ssh(hosts[0], "date +%s").stdout) - seconds - time.time()) < 60

    hosts[0].right_clock()
    assert abs(int(ssh(hosts[0], "date +%s").stdout) - time.time()) < 60


def test_ssh_sessions_are_killed(hosts: Hosts, ssh: Ssh, session: subprocess.Popen[str]) -> None:
    hosts[0].kill_ssh_sessions()

    assert session.wait(PATIENCE) == 255
    assert ssh(hosts[0], "hostname").stdout == "host1\n"


def test_sshd_stops_and_starts(hosts: Hosts, ssh: Ssh, session: subprocess.Popen[str]) -> None:
    hosts[0].stop_sshd()
    assert "refused" in ssh(hosts[0], "hostname").stderr
    assert repeats(session, "still there\n")

    hosts[0].start_sshd()
    assert ssh(hosts[0], "hostname").stdout == "host1\n"


def test_everything_that_is_wrong_is_cleared(hosts: Hosts) -> None:
    host, other, _ = hosts
    host.partition()
    host.impair(delay_ms=1000)
    host.limit_rate("8kbit")
    host.block(other)
    host.fill_disk()
    host.skew_clock(1)
    host.stop_sshd()
    host.freeze()
    host.unplug()
    host.clear()

    assert reaches(other, "host1")
    host.write("/tmp/x", b"x")


# ---- hosts differ
@pytest.mark.parametrize("shell", ["bash", "fish", "tcsh", "sh"])
def test_a_user_has_another_login_shell(hosts: Hosts, ssh: Ssh, need: Callable[[str], None], shell: str) -> None:
    need(shell)
    with hosts[0].login_shell(shell):
        assert ssh(hosts[0], "sh -c 'cat /proc/$PPID/comm'; true").stdout == f"{shell}\n"

    assert "/bin/bash" in hosts[0].run("getent passwd tb").stdout


def test_a_profile_is_noisy(hosts: Hosts, ssh: Ssh) -> None:
    hosts[0].write("/home/tb/.bashrc", b"echo noise\n")

    assert ssh(hosts[0], "hostname").stdout == "noise\nhost1\n"


def test_sshd_has_other_options(hosts: Hosts, ssh: Ssh) -> None:
    with hosts[0].sshd_options("PermitTTY no"):
        assert "PTY allocation request failed" in ssh(hosts[0], "tty", "-tt").stderr

    assert ssh(hosts[0], "tty", "-tt").stdout.startswith("/dev/pts/")


def test_a_host_is_without_python(hosts: Hosts, ssh: Ssh) -> None:
    with hosts[0].without_python():
        assert ssh(hosts[0], "python3 --version").returncode == 127
        assert ssh(hosts[0], "ls / | head -n 1").returncode == 0

    assert ssh(hosts[0], "python3 --version").returncode == 0


def test_a_host_is_not_known_or_shows_another_key(hosts: Hosts, ssh: Ssh) -> None:
    with hosts[0].unknown():
        assert "Host key verification failed" in ssh(hosts[0], "hostname").stderr
    with hosts[0].another_host_key():
        assert "IDENTIFICATION HAS CHANGED" in ssh(hosts[0], "hostname").stderr

    assert ssh(hosts[0], "hostname").stdout == "host1\n"


def test_a_host_is_behind_another_one(hosts: Hosts, ssh: Ssh) -> None:
    with hosts[1].behind(hosts[0]):
        assert ssh(hosts[1], "hostname").stdout == "host2\n"
        assert ssh(hosts[1], "hostname", "-o", "ProxyJump=none", *AT_ONCE).returncode == 255


# ---- nothing is left
@contextmanager
def rig_by_hand(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A rig of two hosts in a process of its own, which runs `command` on the login machine."""
    words = [ROOT / "tests/rig/run", "2", "--", *command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_fault_by_hand() -> None:
    down = "fault host1 block host2 22; fault host1 crash; ssh -o ConnectTimeout=1 host1 hostname"
    up = "fault host1 boot; ssh host1 hostname"
    with rig_by_hand("sh", "-c", f"{down}; {up}; fault host1 explode") as process:
        said, complaints = process.communicate()
    assert said == "host1\n"
    assert "timed out" in complaints
    assert "usage: fault HOST" in complaints
    assert process.returncode == 1


def test_by_hand() -> None:
    with rig_by_hand("sh", "-c", "ssh host2 hostname; echo $RIG_HOSTS; exit 7") as process:
        assert process.stdout
        assert process.stdout.read() == "host2\nhost1 host2\n"
        assert process.wait() == 7


@pytest.mark.parametrize("victim", ["the process that started it", "the lab"])
def test_nothing_is_left_of_a_rig_that_is_killed(victim: str) -> None:
    on_host = "setsid sleep 1000 >/dev/null 2>&1 & echo started"
    with rig_by_hand("sh", "-c", f"ssh host1 '{on_host}'; echo $RIG_SSH_CONFIG; exec sleep 1000") as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        directory = Path(process.stdout.readline()).parent
        children = psutil.Process(process.pid).children()
        (lab,) = (child for child in children if str(directory) in command_of(child))
        (command,) = (child for child in children if not any(str(directory) in word for word in command_of(child)))
        of_the_rig = [each for child in children for each in (child, *child.children(recursive=True))]
        assert len(of_the_rig) > 10
        if victim == "the lab":
            lab.children(recursive=True)[-1].kill()
            of_the_rig.remove(command)
        else:
            process.kill()

        await_true(lambda: all(map(has_ended, of_the_rig)), "the end of all its processes")
        await_true(lambda: not directory.exists(), "its directory is removed")


def test_two_rigs_never_meet(rig: Rig, hosts: Hosts) -> None:
    with Rig(hosts=2) as other:
        other.hosts[0].write("/tmp/here", b"x")

        assert hosts[0].files() == []
        assert is_cut_off(other.hosts[0], "10.77.0.13")
        assert reaches(hosts[0], "10.77.0.13")
