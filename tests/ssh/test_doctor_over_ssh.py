"""`launch doctor` on real hosts: each fault is found, with its hosts and what to do, and nothing is left behind."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from rig import Host, Rig
from support.examining import Examined, doctors
from support.launching import Launch, await_true

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]

PYTHON = sys.executable
"""The tests' own is on every host, with its TensorFlow."""
NOTHING = ("--", "true")
"""A command that is no program of Python."""


@pytest.fixture
def doctor(tmp_path: Path, environment: dict[str, str], rig: Rig, hosts: Hosts) -> Iterator[Callable[..., Examined]]:
    """Start `launch doctor ARGUMENTS` on the login machine; when it is over there is no new file anywhere."""
    with doctors(tmp_path, environment, rig.login.words) as start:
        yield start
    assert {path.name for path in tmp_path.iterdir()} <= {"cluster.yaml", "train.py"}


def with_tensorflow(*names: str, **keys: Any) -> list[dict[str, Any]]:
    return [{"host": name, "python": PYTHON, **keys} for name in names]


# ---- all is well
@pytest.mark.usefixtures("ipv6")
def test_a_healthy_cluster_has_no_errors_and_keeps_nothing(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts, rig: Rig, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()  # the hosts get it at the start
    six = {"host": "host2", "python": PYTHON, "address": hosts[1].addresses[1]}
    two = {"host": "host1", "python": PYTHON, "workers": 2}
    examined = doctor(*cluster({"host": "localhost"}, two, six, sync=".", command=["train.py"]), "--json")

    assert examined.errors() == set()
    assert examined.exit_code == 0
    assert [each["address"] for each in examined.record["hosts"]] == [rig.login.addresses[0], "10.77.0.11", "fd77::12"]
    assert {each["packages"]["tensorflow"] for each in examined.record["hosts"]} == {tensorflow_version()}
    pairs = {(each["from"], each["to"], each["task"]) for each in examined.record["reach"]}
    assert {("localhost", "host1", "worker-2"), ("host1", "host1", "worker-1"), ("host2", "host1", "worker-1")} <= pairs
    assert not [each for each in examined.record["reach"] if each["reason"]]
    assert all(each["bytes_a_second"] > 0 and 0 < each["round_trip"] < 1 for each in examined.record["network"])
    assert len(examined.record["network"]) == 6
    assert examined.record["estimate"]["seconds_a_step"] > 0
    assert [host.files() for host in hosts] == [[], [], []]
    assert hosts[0].run("ls -A /home/tb").stdout.split() == [".bashrc"]


def tensorflow_version() -> str:
    from importlib.metadata import version

    return version("tensorflow")


# ---- hosts that cannot be used
def test_hosts_that_ssh_does_not_reach_are_told_each_with_its_reason(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts
) -> None:
    with ExitStack() as broken:
        broken.enter_context(hosts[0].sshd_options("AuthorizedKeysFile /dev/null"))
        broken.enter_context(hosts[1].unknown())
        broken.enter_context(hosts[2].without_python())
        examined = doctor(*cluster(*hosts))
        said = examined.text

    assert examined.exit_code == 3
    assert "error: host1: it refused the login (allowed there: publickey)" in said
    assert "ssh-copy-id host1" in said
    assert "error: host2: this machine does not know its host key" in said
    assert "-o StrictHostKeyChecking=accept-new host2 true" in said
    assert "error: host3: it has no `python3` in the PATH of a command over ssh" in said
    assert "apt install python3" in said


def test_the_other_hosts_are_examined_where_some_are_not_there(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts
) -> None:
    hosts[0].partition()
    two = [{"host": "host1"}, {"host": "nowhere"}, *with_tensorflow("host2", "host3")]
    examined = doctor(*cluster(*two, ssh={"connect_timeout": "1s"}), "--json")

    assert examined.errors() == {("connection", ("host1",)), ("connection", ("nowhere",))}
    reasons = {each["hosts"][0]: each["what"] for each in examined.found("connection")}
    assert "10.77.0.11 port 22" in reasons["host1"]
    assert reasons["nowhere"] == "ssh cannot resolve the name nowhere"
    assert [each["reached"] for each in examined.record["hosts"]] == [False, False, True, True]
    assert {(each["from"], each["to"]) for each in examined.record["network"]} == {
        ("host2", "host3"),
        ("host3", "host2"),
    }


def test_a_host_that_is_lost_meanwhile_is_told_and_the_others_are_examined(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts
) -> None:
    hang(hosts[0])
    examined = doctor(*cluster({"host": "host1", "python": "~/hangs"}, *with_tensorflow("host2", "host3")), "--json")
    await_hanging(hosts[0])
    hosts[0].kill_ssh_sessions()

    assert examined.errors() == {("connection", ("host1",))}
    assert [bool(each["packages"]) for each in examined.record["hosts"]] == [False, True, True]


def hang(host: Host) -> None:
    """Give the host a Python that says nothing, never ends, and is deaf."""
    host.write("/home/tb/hangs", b"#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n")
    host.run("chmod +x /home/tb/hangs")


def await_hanging(host: Host) -> None:
    await_true(lambda: not host.run("pgrep -f [h]angs", check=False).returncode, "the start of it")


def test_one_machine_under_two_names_and_proxies_and_a_public_address_are_told(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts
) -> None:
    hosts[2].run("ip address add 1.1.1.1/32 dev eth0", "root")
    with hosts[0].session_environment(https_proxy="http://me:hunter2@proxy.example:3128"):
        names = {"host": "host2"}, {"host": "root@host2"}
        examined = doctor(*cluster({"host": "host1"}, *names, {"host": "host3"}), "--json", *NOTHING)
        assert examined.errors() == {("same_machine", ("host2", "root@host2"))}
    hosts[2].run("ip address delete 1.1.1.1/32 dev eth0", "root")

    assert examined.only("proxy")["hosts"] == ["host1"]
    assert "https_proxy=<redacted>" in examined.only("proxy")["what"]
    assert "hunter2" not in examined.text
    assert "list it once" in examined.only("same_machine")["remedy"]
    assert examined.only("public_address")["what"] == "it has the public address 1.1.1.1"


# ---- the network
def test_a_wrong_address_and_a_port_blocked_between_two_hosts_are_told_with_all_who_are_in_it(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts
) -> None:
    hosts[0].block(hosts[2], 21001)
    workers = {"ports": "21000-21001", "workers": 2}
    file = cluster(
        {"host": "host1", "address": "10.77.0.11", **workers},
        {"host": "host2", "address": "10.77.0.99"},
        {"host": "host3", "address": "10.77.0.13", **workers},
    )
    examined = doctor(*file, "--json", *NOTHING)

    told = {tuple(each["hosts"]): each for each in examined.found("reach")}
    assert examined.errors() == {("reach", hosts) for hosts in told}
    assert told["host3", "host1"]["what"] == "host3 cannot reach host1 at 10.77.0.11, port 21001: no answer in 3 s"
    assert told["host1", "host3"]["what"] == "host1 cannot reach host3 at 10.77.0.13, port 21001: no answer in 3 s"
    assert told["host3", "host1"]["remedy"].startswith("open port 21001 in the firewall of host1")
    assert "host1 and host3 cannot reach host2 at 10.77.0.99" in told["host1", "host3", "host2"]["what"]
    assert "is that an address of host2? It has 10.77.0.12" in told["host1", "host3", "host2"]["remedy"]
    measured = {(each["from"], each["to"]) for each in examined.record["network"]}
    assert measured == {("host2", "host1"), ("host2", "host3")}, "what cannot be reached is not measured"


def test_a_slow_link_is_told(doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts) -> None:
    hosts[1].limit_rate("100mbit")
    examined = doctor(*cluster(*hosts), "--json", "--gradient-mb", "98", *NOTHING)

    assert {tuple(each["hosts"]) for each in examined.found("slow_link")} >= {("host1", "host2"), ("host3", "host2")}
    assert examined.errors() == set()
    assert examined.record["estimate"]["gradient_bytes"] == 98e6
    assert examined.record["estimate"]["seconds_a_step"] > 98e6 * 8 * 4 / 3 / 150e6


# ---- what the workers would find
def test_pythons_and_tensorflows_that_are_missing_or_different_are_told(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts
) -> None:
    hosts[1].run(["python3", "-m", "venv", "--without-pip", "/home/tb/venv"])
    packages = hosts[1].run("echo /home/tb/venv/lib/python3*/site-packages").stdout.strip()
    hosts[1].write(f"{packages}/tensorflow/__init__.py", b"__version__ = '2.20.0'\n")
    hosts[1].write(f"{packages}/tensorflow-2.20.0.dist-info/METADATA", b"Name: tensorflow\nVersion: 2.20.0\n")
    examined = doctor(
        *cluster(
            {"host": "localhost"},
            {"host": "host1", "python": "/usr/bin/python3"},
            {"host": "host2", "python": "~/venv/bin/python"},
            {"host": "host3", "python": "~/nowhere/bin/python"},
        ),
        "--json",
    )

    assert examined.errors() == {
        ("tensorflow", ("host1",)),
        ("different_tensorflow", ("host2",)),
        ("python", ("host3",)),
    }
    assert examined.only("tensorflow")["what"].startswith("no TensorFlow in /usr/bin/python3 (Python 3.")
    assert "pip install" in examined.only("tensorflow")["remedy"]
    assert (
        f"TensorFlow 2.20.0, while localhost has {tensorflow_version()}"
        in examined.only("different_tensorflow")["what"]
    )
    assert "cannot run /home/tb/nowhere/bin/python: No such file" in examined.only("python")["what"]
    assert examined.only("python")["places"]
    assert examined.record["hosts"][3]["room"]["free"] > 0, "the rest of such a host is examined, too"


def test_a_full_disk_a_wrong_clock_and_a_directory_that_cannot_be_written_are_told(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts
) -> None:
    hosts[0].fill_disk()
    hosts[1].skew_clock(86400)
    hosts[2].run("mkdir /tmp/locked", "root")
    examined = doctor(
        *cluster({"host": "host1"}, {"host": "host2"}, {"host": "host3", "run_dir": "/tmp/locked/runs"}),
        "--json",
        *NOTHING,
    )

    assert examined.errors() == {("disk_full", ("host1",)), ("unwritable", ("host3",))}
    assert "No space left on device" in examined.only("disk_full")["what"]
    assert "make room" in examined.only("disk_full")["remedy"]
    assert examined.only("clock")["hosts"] == ["host2"]
    assert examined.only("clock")["what"] == "its clock is 1 day ahead of this machine's"
    assert "/tmp/locked belongs to root (mode 755), and the workers run as tb" in examined.only("unwritable")["what"]
    assert "run_dir" in examined.only("unwritable")["remedy"]


@pytest.mark.parametrize("key", ["run_dir", "workdir"])
def test_a_directory_that_a_run_would_refuse_is_told_in_the_words_of_the_run(
    doctor: Callable[..., Examined], launch: Start, cluster: Cluster, hosts: Hosts, tmp_path: Path, key: str
) -> None:
    (tmp_path / "train.py").touch()
    hosts[0].run("mkdir /tmp/eves && chmod 1777 /tmp/eves", "eve")
    hosts[1].run("mkdir /tmp/open && chmod 777 /tmp/open")
    file = cluster(
        {"host": "host1", key: "/tmp/eves/deep"},
        {"host": "host2", key: "/tmp/open/deep"},
        {"host": "host3", key: "/tmp/missing/deep"},
        sync=".",
        command=["true"],
    )
    examined = doctor(*file, "--json")
    assert [host.files() for host in hosts] == [[], [], []]
    run = launch(*file)

    assert examined.errors() == {("unsafe", ("host1",)), ("unsafe", ("host2",))}
    assert run.wait() == 3
    for each in examined.found("unsafe"):
        assert each["places"]
        assert f"{each['hosts'][0]}: {each['what']}, and workers would run that; {each['remedy']}" in run.stderr
    shutil.rmtree(run.runs)


def test_programs_that_differ_or_are_missing_are_told(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts, tmp_path: Path
) -> None:
    files = {
        "train.py": b"import model, json\nimport numpy\n",
        "model/__init__.py": b"",
        "model/cnn.py": b"LAYERS = 3\n",
    }
    for host in hosts[:2]:
        for name, content in files.items():
            host.write(f"/home/tb/project/{name}", content)
    hosts[1].write("/home/tb/project/model/cnn.py", b"LAYERS = 4\n")
    hosts[2].run("mkdir /home/tb/project")
    examined = doctor(*cluster(*with_tensorflow("host1", "host2", "host3", workdir="~/project")), "--json", "train.py")

    assert examined.errors() == {("program", ("host3",)), ("different_program", ("host2",))}
    assert examined.only("program")["what"].startswith("the program is not there: train.py: No such file")
    assert examined.only("different_program")["what"] == "other content than elsewhere: model/cnn.py"


def test_a_directory_that_hosts_share_is_told(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts, rig: Rig
) -> None:
    shared = hosts[0].directory / "shared"
    shared.mkdir()
    file = cluster({"host": "localhost"}, {"host": "root@host1", "run_dir": "/run/rig/shared/runs"}, {"host": "host2"})
    examined = doctor(*file, "--json", "--run-dir", str(shared / "runs"), *NOTHING)

    assert examined.only("shared")["what"] == "localhost and root@host1 share the disk of the output directory"
    assert examined.only("not_shared")["hosts"] == ["localhost", "root@host1", "host2"]
    assert not list(shared.iterdir())
    shared.rmdir()


# ---- a start tells the quick part
def test_a_start_tells_of_a_wrong_clock(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    hosts[1].skew_clock(-7200)
    started = launch(*cluster(*hosts[:2]), "--", "true")
    assert started.succeeded()

    assert "host2: its clock is 2 h behind this machine's" in started.stderr


# ---- names as addresses
@pytest.mark.parametrize("known", [True, False])
def test_a_name_as_address_is_dialled_and_measured_where_it_is_known(
    doctor: Callable[..., Examined], cluster: Cluster, hosts: Hosts, known: bool
) -> None:
    names = hosts[1].directory / "hosts"
    before = names.read_text()
    if known:
        names.write_text(f"{before}10.77.0.13 first.example\n10.77.0.11 first.example\n")
    try:
        examined = doctor(*cluster({"host": "host1", "address": "first.example"}, hosts[1]), "--json", *NOTHING)
        assert examined.record
    finally:
        names.write_text(before)
    said = "\n".join(each["what"] for each in examined.record["findings"])
    measured = {(each["from"], each["to"]) for each in examined.record["network"] if each["bytes_a_second"]}

    assert (("reach", ("host2", "host1")) in examined.errors()) is not known
    assert ("host2 cannot resolve the name first.example: " in said) is not known
    assert (("host2", "host1") in measured) is known
