"""Who may connect to a worker's port: a network of its own, in which this machine has several addresses."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rig import missing
from rig.lab import Lab
from support.examining import doctors
from support.launching import Launch, await_true, launches, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Dial = Callable[..., str]

STRANGER, STRANGER_IPV6 = "203.0.113.7", "fd99::7"
"""Addresses of this machine that a run which is dialled at loopback does not know."""
DIAL = """
import socket, sys
for line in sys.stdin:
    source, destination, port = line.split()
    try:
        with socket.create_connection((destination, int(port)), 60, (source, 0)) as connection:
            print(connection.recv(100).decode(), flush=True)
    except OSError as error:
        print(type(error).__name__, flush=True)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A network of its own."""
    if reason := missing():
        pytest.skip(reason)
    lab = Lab()
    try:
        lab.set_up_network(f"address add {STRANGER}/32 dev lo", f"address add {STRANGER_IPV6}/128 dev lo")
        yield lab
    finally:
        lab.close()


@pytest.fixture
def launch(tmp_path: Path, environment: dict[str, str], lab: Lab) -> Iterator[Start]:
    """Start `launch` in that network."""
    with launches(tmp_path, environment, lab.on_login_machine) as start:
        yield start


@pytest.fixture(scope="module")
def dial(lab: Lab) -> Iterator[Dial]:
    """What is said to somebody who connects from an address of this machine to another one, or the error."""
    argv = [*lab.on_login_machine, sys.executable, "-c", DIAL]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as dialler:
        asked, answers = dialler.stdin, dialler.stdout
        assert asked is not None
        assert answers is not None

        def dial(source: str, port: int, destination: str = "") -> str:
            asked.write(f"{source} {destination or source} {port}\n")
            asked.flush()
            return answers.readline().strip()

        yield dial
        asked.close()


def port_of(started: Launch, task: str = "worker-0", attempt: int = 0) -> int:
    started.await_log(b"listening at ", task, attempt=attempt)
    found = re.search(rb"listening at (\d+)\n", started.log(task, attempt))
    assert found
    return int(found[1])


def refusals(started: Launch) -> list[str]:
    return [each["address"] for each in started.events if each["type"] == "stranger_refused"]


def ended(started: Launch) -> str:
    """Its words, once it has been stopped."""
    started.signal(15)
    assert started.wait() == 143
    return started.stderr


def test_a_worker_is_reached_at_loopback_and_by_nobody_else(launch: Start, cluster: Cluster, dial: Dial) -> None:
    started = launch(*cluster(2), *program("greeting"))

    for port in (port_of(started, "worker-0"), port_of(started, "worker-1")):
        for _ in range(10):
            assert dial("127.0.0.1", port) == dial("127.8.9.10", port) == dial("::1", port) == "worker"
            assert dial(STRANGER, port) == dial(STRANGER_IPV6, port) == "ConnectionResetError"
            assert dial(STRANGER, port, "127.0.0.1") == "ConnectionResetError"
    ended(started)


def test_a_stranger_is_told_of_once_with_address_worker_and_remedy(launch: Start, cluster: Cluster, dial: Dial) -> None:
    started = launch(*cluster(1), *program("greeting"))
    port = port_of(started)
    for _ in range(3):
        dial(STRANGER, port)
    dial(STRANGER_IPV6, port)
    started.await_event("stranger_refused", count=2)

    said = ended(started)
    assert refusals(started) == [STRANGER, STRANGER_IPV6]
    assert said.count(f"worker 0 on localhost: a connection from {STRANGER} was refused: no host of this run ") == 1
    assert "`network: {open: true}` in the cluster file admits everybody" in said


def test_whoever_comes_before_the_worker_listens_is_reset_and_only_a_stranger_is_told_of(
    launch: Start, cluster: Cluster, dial: Dial, tmp_path: Path
) -> None:
    started = launch(*cluster(1), *program("greeting", "late"))
    started.await_log(b"not yet", "worker-0")
    (reserved,) = [each["ports"] for each in started.events if each["type"] == "ports_reserved"]
    port = reserved["worker-0"]

    assert dial("127.0.0.1", port) == dial(STRANGER, port) == "ConnectionResetError"
    assert "task_listening" not in {each["type"] for each in started.events}
    (tmp_path / "go").touch()
    assert port_of(started) == port
    assert dial("127.0.0.1", port) == "worker"
    assert dial(STRANGER, port) == "ConnectionResetError"
    ended(started)
    assert refusals(started) == [STRANGER]


def test_an_open_network_admits_everybody(launch: Start, cluster: Cluster, dial: Dial, tmp_path: Path) -> None:
    options = cluster(1)
    file = Path(options[1])
    file.write_text(file.read_text().replace('"hosts"', '"network": {"open": true}, "hosts"', 1))
    started = launch(*options, *program("greeting"))
    port = port_of(started)

    assert dial("127.0.0.1", port) == dial(STRANGER, port) == dial(STRANGER_IPV6, port) == "worker"
    ended(started)


def test_a_machine_that_is_dialled_at_its_own_address_may_connect_from_it(
    launch: Start, cluster: Cluster, dial: Dial
) -> None:
    started = launch(*cluster(1, address=STRANGER), *program("greeting"))
    port = port_of(started)

    assert dial("127.0.0.1", port) == dial(STRANGER, port) == dial(STRANGER_IPV6, port) == "worker"
    ended(started)


def test_another_attempt_is_kept_from_strangers_like_the_first(
    launch: Start, cluster: Cluster, dial: Dial, tmp_path: Path
) -> None:
    started = launch(*cluster(1, restart={"max_restarts": 1, "backoff": "10ms"}), *program("greeting"))
    first = port_of(started)
    assert dial(STRANGER, first) == "ConnectionResetError"
    (tmp_path / "fail").touch()

    port = port_of(started, attempt=1)
    for _ in range(10):
        assert dial("127.0.0.1", port) == "worker"
        assert dial(STRANGER, port) == "ConnectionResetError"
    ended(started)
    assert refusals(started) == [STRANGER]


SCAN = """
import socket, sys
for n in range(200):
    with socket.socket() as each:
        each.bind((f"198.51.100.{n}", 0))
        each.connect(("127.0.0.1", int(sys.argv[1])))
"""


def test_of_many_strangers_few_are_told_of_one_by_one(launch: Start, cluster: Cluster, lab: Lab) -> None:
    lab.set_up_network("address add 198.51.100.0/24 dev lo")
    started = launch(*cluster(1), *program("greeting"))
    subprocess.run([*lab.on_login_machine, sys.executable, "-c", SCAN, str(port_of(started))], check=True)
    await_true(lambda: len(refusals(started)) == 10, "the last line about the scan", lambda: refusals(started))

    assert "from 198.51.100.127 was refused, as were 127 other addresses:" in ended(started)


def test_a_worker_that_is_started_again_alone_is_kept_from_strangers_like_the_others(
    launch: Start, cluster: Cluster, dial: Dial
) -> None:
    options = cluster(tasks={"chief": 1, "worker": 2, "ps": 1}, restart={"max_restarts": 1, "backoff": "10ms"})
    started = launch(*options, *program("greeting"))
    started.await_event("task_listening", count=4)
    ports = [port_of(started, task) for task in ("chief-0", "worker-0", "worker-1", "ps-0")]
    started.worker("worker-1").kill()
    started.await_event("task_listening", count=5)

    for port in ports:
        for _ in range(5):
            assert dial("127.0.0.1", port) == "worker"
            assert dial(STRANGER, port) == "ConnectionResetError"
    ended(started)


NO_IPV6 = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"


@pytest.fixture
def no_ipv6(lab: Lab) -> Iterator[None]:
    """As in most containers: the kernel has IPv6, and no interface has an address of it, not even loopback."""
    subprocess.run([*lab.on_login_machine, "sh", "-c", NO_IPV6], check=True)
    yield
    subprocess.run([*lab.on_login_machine, "sh", "-c", NO_IPV6.replace("1", "0", 1)], check=True)
    lab.set_up_network(f"address add {STRANGER_IPV6}/128 dev lo")


@pytest.mark.usefixtures("no_ipv6")
def test_a_machine_without_ipv6_has_a_gate_too(launch: Start, cluster: Cluster, dial: Dial) -> None:
    started = launch(*cluster(1), *program("greeting"))
    port = port_of(started)

    for _ in range(5):
        assert dial("127.0.0.1", port) == "worker"
        assert dial(STRANGER, port) == "ConnectionResetError"
    ended(started)


SQUATTER = """
import socket, sys
with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def test_a_port_at_which_somebody_listens_over_ipv6_alone_is_passed_over(
    launch: Start, cluster: Cluster, dial: Dial, lab: Lab
) -> None:
    argv = [*lab.on_login_machine, sys.executable, "-c", SQUATTER]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as squatter:
        assert squatter.stdout is not None
        taken = int(squatter.stdout.readline())
        started = launch(*cluster(1, ports=f"{taken}-{taken + 1}"), *program("greeting"))

        assert port_of(started) == taken + 1
        assert dial(STRANGER, taken + 1) == "ConnectionResetError"
        ended(started)
        squatter.communicate()


NO_GATE = """
import ctypes, os, platform, struct, sys
answer, *command = sys.argv[1:]
number = {"x86_64": 54, "aarch64": 208}[platform.machine()]  # setsockopt
load, equal, give = 0x20, 0x15, 0x06
program = [(load, 0, 0, 0), (equal, 0, 3, number), (load, 0, 0, 32), (equal, 0, 1, 51),
           (give, 0, 0, 0x50000 | int(answer)), (give, 0, 0, 0x7FFF0000)]
packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
described = struct.pack("HP", len(program), ctypes.addressof(packed))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, described, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(command[0], command)
"""
"""Runs a command on a kernel that answers SO_ATTACH_REUSEPORT_CBPF with an error (0: none), and does nothing else."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errno.ENOPROTOOPT, "Protocol not available"),
        (0, "this system does not let a program choose who takes a connection"),
    ],
    ids=["refuses", "only pretends"],
)
def test_where_the_kernel_cannot_do_it_a_line_says_so_and_the_run_goes_on(
    launch: Start, cluster: Cluster, dial: Dial, error: int, told: str
) -> None:
    started = launch(*cluster(1), *program("greeting"), under=[sys.executable, "-c", NO_GATE, str(error)])
    port = port_of(started)

    assert dial("127.0.0.1", port) == dial(STRANGER, port) == "worker"
    said = ended(started)
    assert said.count(f"localhost: connections from elsewhere cannot be refused here ({told})") == 1
    assert "let a firewall keep others off the tasks' ports" in said


def test_the_doctor_tells_where_the_kernel_cannot_do_it(tmp_path: Path, environment: dict[str, str]) -> None:
    without_gate = [sys.executable, "-c", NO_GATE, str(errno.ENOPROTOOPT)]
    with doctors(tmp_path, environment, without_gate) as doctor:
        finding = doctor("--workers", "1", "--json").only("gate")

    assert finding["severity"] == "warning"
    assert finding["what"].endswith("cannot keep strangers off the workers' ports: Protocol not available")
    assert "let a firewall keep others off the workers' ports" in finding["remedy"]
