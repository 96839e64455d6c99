"""ssh as people have it: whatever works in their shell works here, and what does not is told with its remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest
from rig import Host, Rig
from rig.processes import command_of
from support.launching import Launch

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]

SECRET = "hunter-2-in-no-command-line"


def test_workers_on_two_hosts_are_one_cluster(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster(*hosts[:2]), "--", "sh", "-c", 'hostname; echo "$TF_CONFIG"')
    assert started.succeeded()

    names, configs = zip(*(started.log(task).decode().splitlines() for task in ("worker-0", "worker-1")), strict=True)
    assert names == ("host1", "host2")
    addresses = json.loads(configs[0])["cluster"]["worker"]
    assert [address.rpartition(":")[0] for address in addresses] == [host.addresses[0] for host in hosts[:2]]
    assert json.loads(configs[1]) == {**json.loads(configs[0]), "task": {"type": "worker", "index": 1}}


def test_hosts_that_are_listed_without_a_file_are_one_cluster(launch: Start, hosts: Hosts) -> None:
    started = launch("-H", "tb@host1:2,host2", "--", "sh", "-c", 'hostname; echo "$TF_CONFIG"')
    assert started.succeeded()

    tasks = ("worker-0", "worker-1", "worker-2")
    names, configs = zip(*(started.log(task).decode().splitlines() for task in tasks), strict=True)
    assert names == ("host1", "host1", "host2")
    assert len(json.loads(configs[2])["cluster"]["worker"]) == 3


def test_what_remote_workers_write_is_shown_and_kept_byte_for_byte(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    written = b"".join(b"%07d \xff\x00 line\n" % n for n in range(100_000))
    hosts[1].write("/home/tb/written", written)
    started = launch(*cluster(*hosts[:2]), "--", "sh", "-c", 'if [ "$(hostname)" = host2 ]; then cat written; fi')
    assert started.succeeded()

    assert started.log("worker-1") == written
    assert started.raw_stdout.count(b"[worker 1] ") == 100_000


@pytest.mark.parametrize("shell", ["fish", "tcsh", "sh", "bash"])
def test_any_login_shell_will_do(
    launch: Start, cluster: Cluster, hosts: Hosts, shell: str, need: Callable[..., None]
) -> None:
    need(shell)
    with hosts[0].login_shell(shell):
        started = launch(*cluster(hosts[0]), "--", "hostname")
        assert started.succeeded()

    assert started.stdout == "[worker 0] host1\n"


def test_a_noisy_login_does_not_disturb_the_protocol(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    noise = b'echo "Welcome to $(hostname)"; echo "your quota is low" >&2; head -c 200000 /dev/zero | tr "\\0" x\n'
    hosts[0].write("/home/tb/.bashrc", noise)
    started = launch(*cluster(hosts[0]), "--", "hostname")

    assert started.succeeded()
    assert started.stdout == "[worker 0] host1\n"


def test_an_sshd_that_gives_no_terminal_and_shows_a_banner_will_do(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    hosts[0].write("/tmp/banner", b"Authorized use only.\n", user="root")
    with hosts[0].sshd_options("PermitTTY no", "Banner /tmp/banner"):
        started = launch(*cluster(hosts[0]), "--", "hostname")
        assert started.succeeded()

    assert started.stdout == "[worker 0] host1\n"


def test_a_jump_host_of_the_users_configuration_is_used(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    with hosts[1].behind(hosts[2]):
        started = launch(*cluster(hosts[1]), "--", "hostname")
        assert started.succeeded()

    assert started.stdout == "[worker 0] host2\n"


def test_a_jump_host_of_the_cluster_file_is_used(launch: Start, cluster: Cluster, hosts: Hosts, rig: Rig) -> None:
    hosts[1].block(rig.login)
    started = launch(*cluster({"host": "host2", "ssh": {"options": ["-J", "host3"]}}), "--", "hostname")

    assert started.succeeded()


def test_what_is_missing_is_installed_for_the_python_of_the_host_that_lacks_it(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    hosts[1].run('mkdir own && ln -s "$(command -v python3)" own/python3')
    program = "import os\nif os.uname().nodename == 'host2': import no_such_module\nelse: import time; time.sleep(600)"
    started = launch(*cluster(hosts[0], {"host": "host2", "python": "~/own/python3"}), "--", "python", "-c", program)

    assert started.wait() == 1
    assert "install no_such_module for ~/own/python3 on host2" in started.stderr


def test_a_user_may_stand_in_front_of_a_host(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster({"host": "root@host1"}, {"host": "host2"}), "--", "id", "-un")
    assert started.succeeded()

    assert sorted(started.stdout.splitlines()) == ["[worker 0] root", "[worker 1] tb"]


def test_an_ssh_configuration_of_its_own_is_used(
    launch: Start, cluster: Cluster, hosts: Hosts, rig: Rig, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    alias = f"Host hostess\n    HostName {hosts[0].addresses[0]}\n    HostKeyAlias host1\n"
    config.write_text(alias + rig.ssh.config.read_text())
    started = launch(*cluster({"host": "hostess"}, ssh={"config": str(config)}), "--", "hostname")

    assert started.succeeded()


def test_connections_that_a_busy_sshd_drops_are_tried_again(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    with hosts[0].sshd_options("MaxStartups 1:60:2"):
        started = [launch(*cluster(hosts[0]), "--", "true") for _ in range(5)]
        assert [each.wait() for each in started] == [0] * 5, [each.stderr for each in started]


def test_the_output_directory_is_there_when_a_worker_starts(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster(*hosts[:2]), "--", "sh", "-c", 'cd "$LAUNCH_OUTPUT_DIR" && pwd')

    assert started.succeeded()
    assert started.log("worker-1").decode().endswith("/output\n")


# ---- nothing on a command line
def test_values_arrive_as_they_are_and_stand_in_no_command_line(
    launch: Start, cluster: Cluster, hosts: Hosts, tmp_path: Path
) -> None:
    values = {
        "QUOTES": 'it\'s "so" `date` $(date) $HOME \\ !',
        "LINES": "one\ntwo\n",
        "UTF8": "Grüße 世界 🚀",
        "LONG": "x" * 100_000,
        "API_TOKEN": SECRET,
    }
    program = "import json, os, signal; print(json.dumps(dict(os.environ)), flush=True); signal.pause()"
    started = launch(*cluster({"host": "host1", "env": values}), "--", "python", "-c", program)
    started.await_log(b"}\n", "worker-0")
    lines = [" ".join(command_of(process)) for process in psutil.process_iter()]
    started.process.terminate()
    started.wait()

    found = json.loads(started.log("worker-0"))
    assert {key: found[key] for key in values} == values
    assert not [line for line in lines if SECRET in line or "Grüße" in line]
    written = [path for path in started.runs.rglob("*") if path.is_file() and not path.name.endswith(".log")]
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]


# ---- what does not work is told
def refused(launch: Start, cluster: Cluster, *names: str) -> str:
    """What is said about hosts that cannot be used; exit code 3, and nothing was started."""
    started = launch(*cluster(*({"host": name} for name in names)), "--", "sh", "-c", "echo started; sleep 1000")
    assert started.wait() == 3
    assert started.stdout == ""
    return started.stderr


BROKEN: dict[str, tuple[Callable[[Host], AbstractContextManager[None]], tuple[str, ...]]] = {
    "an unknown host key": (
        Host.unknown,
        ("host1: this machine does not know its host key", "-o StrictHostKeyChecking=accept-new host1 true"),
    ),
    "a changed host key": (
        Host.another_host_key,
        (
            "host1: its host key is not the one that this machine knows",
            "only if you know why it changed: ssh-keygen -f",
        ),
    ),
    "no python": (Host.without_python, ("host1: it has no `python3` in the PATH", "apt install python3")),
    "a key that is not accepted": (
        lambda host: host.sshd_options("AuthorizedKeysFile /dev/null"),
        ("host1: it refused the login (allowed there: publickey)", "ssh-copy-id host1"),
    ),
}


@pytest.mark.parametrize(("broken", "told"), BROKEN.values(), ids=BROKEN)
def test_a_host_that_cannot_be_used_is_told_with_the_remedy(
    launch: Start,
    cluster: Cluster,
    hosts: Hosts,
    broken: Callable[[Host], AbstractContextManager[None]],
    told: tuple[str, ...],
) -> None:
    with broken(hosts[0]):
        said = refused(launch, cluster, "host1", "host2")

    for part in told:
        assert part in said


def test_an_unknown_name_is_told(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    assert "nowhere: ssh cannot resolve the name nowhere" in refused(launch, cluster, "nowhere", "host2")


def test_a_host_without_sshd_is_told(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    hosts[0].stop_sshd()

    assert "host1: 10.77.0.11 port 22 refuses connections" in refused(launch, cluster, "host1", "host2")


def test_all_hosts_that_cannot_be_used_are_told_at_once(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    hosts[0].stop_sshd()
    with hosts[1].unknown():
        said = refused(launch, cluster, "host1", "host2", "host3")

    assert "host1: 10.77.0.11 port 22 refuses connections" in said
    assert "host2: this machine does not know its host key" in said
    assert "host3:" not in said


@pytest.fixture
def calls(tmp_path: Path, environment: dict[str, str], rig: Rig) -> Callable[[], list[str]]:
    """How often ssh was called for each connection of the launchers: by its last words, which name the host."""
    programs = tmp_path / "programs"
    programs.mkdir()
    told = tmp_path / "ssh-was-called-with"
    (programs / "ssh").write_text(f'#!/bin/sh\necho "$*" >>{told}\nexec {rig.ssh.programs}/ssh "$@"\n')
    (programs / "ssh").chmod(0o755)
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    return lambda: [
        line.partition(" -- ")[2].split()[0] for line in told.read_text().splitlines() if " -G " not in line
    ]


def test_a_host_that_does_not_answer_is_called_once_and_waited_for_aloud_while_the_others_stay(
    launch: Start, cluster: Cluster, hosts: Hosts, calls: Callable[[], list[str]], tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/train.py").touch()
    hosts[1].partition()
    file = cluster(*hosts[:2], ssh={"connect_timeout": "4s"}, timeouts={"lease": "1s"}, sync="project")
    started = launch(*file, "--", "python", "train.py")

    assert started.wait() == 3
    assert sorted(calls()) == ["host1", "host2"]
    assert started.stderr.count("waiting for host2 (10.77.0.12)\n") == 1
    assert "host2: 10.77.0.12 port 22" in started.stderr
    assert "host1: no sign of life" not in started.stderr


def test_a_host_whose_disk_is_full_is_told_before_anything_starts(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    hosts[1].fill_disk()
    said = refused(launch, cluster, "host1", "host2")

    assert "host2: /home/tb/.tf-launch/runs" in said
    assert "No space left on device" in said
