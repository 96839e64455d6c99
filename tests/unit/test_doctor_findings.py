"""From what hosts answered to what a person is told: every kind of finding, and what is no finding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.plan import TaskPlan
from launcher.cluster.spec import Task
from launcher.doctor.diagnosis import diagnosed
from launcher.doctor.examination import Dial, Examination, Gradients, HostExamination
from launcher.doctor.findings import Finding, Severity
from launcher.hosts.facts import HostFacts
from launcher.hosts.ssh_complaint import Complaint
from launcher.on_host.agent.own_directory import WOULD_RUN
from launcher.on_host.probe.answers import (
    Answers,
    DiskRoom,
    Gpu,
    Gpus,
    NetworkCard,
    ProgramFound,
    PythonFound,
    Speed,
    Surroundings,
    TensorFlowFound,
)

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR
NAMES = ("a", "b", "c")
ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}
GB = 10**9
ROOM = DiskRoom("/home/me/runs", 100 * GB, 200 * GB, "/home/me", "me", "755", "me")
H100 = Gpu(0, "H100", 81559, 4)
GPUS = Gpus("570.1", "12.8", (H100, replace(H100, index=1)))
WELL = Answers(
    python=PythonFound("3.12.3", "/venv/bin/python"),
    packages={"tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.0"},
    program=ProgramFound("/p/train.py", "", {"train.py": "1", "model.py": "2"}),
    surroundings=Surroundings(),
    gate="",
    gpus=Gpus(),
    room=ROOM,
    unsafe=(),
    unwritable="",
    seen=(),
)
LINK = Speed(rate=GB, round_trip=1e-4)


def host(name: str, answers: Answers = WELL, workers: int = 1, **keys: Any) -> HostExamination:
    """One that is well, but for what is said."""
    index = NAMES.index(name)
    own = {key: keys.pop(key) for key in ("gpus", "address", "env", "hold_ports") if key in keys}
    tasks = tuple(Task("worker", 10 * index + n) for n in range(workers))
    facts = HostFacts(addresses=(ADDRESSES[name],), machine=name)
    plan = TaskPlan(tasks[0], name, f"{ADDRESSES[name]}:2000", ("python", "train.py"), "/p", {}, "", "")
    answers = replace(answers, network_cards=answers.network_cards or {ADDRESSES[name]: NetworkCard("eth0", 1500, 0)})
    return HostExamination(
        **{"host": Host(name, tasks, **own), "facts": facts, "plan": plan, "answers": answers, **keys}
    )


def cluster(*hosts: HostExamination, **keys: Any) -> Examination:
    """Of these hosts, and of others that are well, so that there are three."""
    named = {each.name: each for each in hosts}
    all_hosts = tuple(named.get(name) or host(name) for name in NAMES)
    pairs = [(one, other) for one in NAMES for other in NAMES if one != other]
    whole: dict[str, Any] = {
        "addresses": {each.name: ADDRESSES[each.name] for each in all_hosts if each.facts},
        "dialled": dict.fromkeys((dial(*pair) for pair in pairs), ""),
        "speeds": dict.fromkeys(pairs, LINK),
    }
    file = Cluster("test", tuple(each.host for each in all_hosts))
    return Examination(file, all_hosts, Gradients(100e6, "an example"), **{**whole, **keys})


def dial(dialler: str, name: str, address: str | None = None, port: int = 2000) -> Dial:
    return Dial(dialler, name, address or ADDRESSES[name], Task("worker", 10 * NAMES.index(name)), port)


def answers(**keys: Any) -> Answers:
    return replace(WELL, **keys)


EXPECTED = {"not_shared", "network"}
"""What is always told of a cluster without a shared disk."""

CASES: dict[str, tuple[Examination, list[tuple[Severity, str, tuple[str, ...], str]]]] = {
    "a healthy cluster": (cluster(), []),
    # connections
    "a host that ssh does not reach": (
        cluster(host("b", Answers(), facts=None, complaint=Complaint("it refused the login", "ssh-copy-id b"))),
        [(ERROR, "connection", ("b",), "it refused the login")],
    ),
    "a host that is lost while the others dial it": (
        cluster(
            host("b", complaint=Complaint("the connection to it broke")),
            dialled={dial("a", "b"): "Connection refused", dial("c", "b"): "no answer in 3 s"},
        ),
        [(ERROR, "connection", ("b",), "the connection to it broke")],
    ),
    "no ports": (
        cluster(host("b", no_ports="2 free ports are needed in 20000-20001, 1 were found")),
        [(ERROR, "ports", ("b",), "no ports for its workers: 2 free ports are needed")],
    ),
    "one machine under two names": (
        cluster(host("b", facts=HostFacts(addresses=("10.0.0.2",), machine="a"))),
        [(ERROR, "same_machine", ("a", "b"), "the same machine under two names")],
    ),
    # versions
    "no such Python": (
        cluster(
            host("b", answers(python=None, packages=None, program=None), refusal="cannot run /x/python: No such file")
        ),
        [(ERROR, "python", ("b",), "the Python for its workers cannot be started: cannot run /x/python")],
    ),
    "no such Python, and a program that needs none": (
        cluster(host("b", answers(python=None, packages=None), refusal="cannot run /x/python", runs_python=False)),
        [(NOTE, "python", ("b",), "cannot run /x/python")],
    ),
    "no such working directory": (
        cluster(host("b", answers(python=None, packages=None), refusal="cannot enter the working directory /x: No")),
        [(ERROR, "workdir", ("b",), "cannot enter the working directory /x")],
    ),
    "no TensorFlow": (
        cluster(host("b", answers(packages={"numpy": "2.4.0"}))),
        [(ERROR, "tensorflow", ("b",), "no TensorFlow in /venv/bin/python (Python 3.12.3)")],
    ),
    "another TensorFlow": (
        cluster(host("b", answers(packages={**(WELL.packages or {}), "tensorflow": "2.20.0"}))),
        [(ERROR, "different_tensorflow", ("b",), "TensorFlow 2.20.0, while a and c have 2.21.0")],
    ),
    "a patch of TensorFlow": (
        cluster(host("b", answers(packages={**(WELL.packages or {}), "tensorflow": "2.21.1"}))),
        [(WARNING, "different_tensorflow", ("b",), "TensorFlow 2.21.1, while a and c have 2.21.0")],
    ),
    "another Keras on most hosts: the odd one is named": (
        cluster(*(host(name, answers(packages={"tensorflow": "2.21.0", "keras": "3.1.0"})) for name in "bc")),
        [(ERROR, "different_keras", ("a",), "Keras 3.15.1, while b and c have 3.1.0")],
    ),
    "another Python": (
        cluster(host("c", answers(python=PythonFound("3.11.9", "/p")))),
        [(WARNING, "different_python", ("c",), "Python 3.11.9, while a and b have 3.12.3")],
    ),
    "TensorFlow that cannot be imported": (
        cluster(
            host("b", answers(tensorflow=TensorFlowFound("", 0, "", "ImportError: libcudart.so.12"))), imports=True
        ),
        [(ERROR, "tensorflow_import", ("b",), "TensorFlow cannot be imported: ImportError: libcudart.so.12")],
    ),
    # the program
    "a program that is not there": (
        cluster(host("b", answers(program=ProgramFound(None, "train.py: No such file or directory")))),
        [(ERROR, "program", ("b",), "the program is not there: train.py: No such file or directory (in /p)")],
    ),
    "a file with other content": (
        cluster(host("b", answers(program=ProgramFound("/p/train.py", "", {"train.py": "1", "model.py": "3"})))),
        [(ERROR, "different_program", ("b",), "other content than elsewhere: model.py")],
    ),
    "a file that only one host has": (
        cluster(
            host("b", answers(program=ProgramFound("/p/train.py", "", {"train.py": "1", "model.py": "2", "x.py": "4"})))
        ),
        [(WARNING, "different_files", ("b",), "files that are not on all hosts: x.py")],
    ),
    # GPUs
    "a driver that does not answer": (
        cluster(host("b", answers(gpus=Gpus(complaint="couldn't communicate with the NVIDIA driver")))),
        [(ERROR, "gpu_driver", ("b",), "the NVIDIA driver does not answer: couldn't communicate")],
    ),
    "GPUs on one host only": (
        cluster(host("b", answers(gpus=GPUS))),
        [(ERROR, "gpu_count", ("b",), "2 GPUs for each worker, elsewhere 0")],
    ),
    "a GPU that is not there": (
        cluster(*(host(name, answers(gpus=GPUS), gpus=(1, 2) if name == "b" else (0, 1)) for name in NAMES)),
        [(ERROR, "gpu_absent", ("b",), "`gpus` names 2; it has 0 and 1")],
    ),
    "GPUs that nobody shares out": (
        cluster(*(host(name, answers(gpus=GPUS), workers=2 if name == "b" else 1) for name in NAMES)),
        [
            (
                WARNING,
                "gpus_not_shared_out",
                ("b",),
                "2 workers, and nothing says which of them gets which of the 2 GPUs",
            )
        ],
    ),
    "a GPU that somebody uses": (
        cluster(
            *(
                host(name, answers(gpus=replace(GPUS, devices=(replace(H100, used=40000 * (name == "b")),))))
                for name in NAMES
            )
        ),
        [(WARNING, "gpu_in_use", ("b",), "40000 of 81559 MiB are in use on GPU 0 (H100)")],
    ),
    "another driver": (
        cluster(
            *(host(name, answers(gpus=replace(GPUS, driver="550.2" if name == "b" else "570.1"))) for name in NAMES)
        ),
        [(WARNING, "gpu_difference", ("b",), "driver: 550.2, elsewhere 570.1")],
    ),
    "GPUs that TensorFlow does not see": (
        cluster(
            *(
                host(
                    name,
                    answers(gpus=GPUS, tensorflow=TensorFlowFound("2.21.0", 0 if name == "b" else 2, "12.5.1", "")),
                )
                for name in NAMES
            ),
            imports=True,
        ),
        [(ERROR, "gpu_unseen", ("b",), "TensorFlow sees 0 of the 2 GPUs of a worker (driver 570.1, up to CUDA 12.8")],
    ),
    # disks
    "a full disk": (
        cluster(host("b", answers(unwritable="No space left on device (/home/me/runs)", room=replace(ROOM, free=0)))),
        [(ERROR, "disk_full", ("b",), "No space left on device (/home/me/runs); 0 B of 200 GB are free")],
    ),
    "a directory of somebody else's": (
        cluster(host("b", answers(unwritable="Permission denied (/data/runs)", room=replace(ROOM, owner="root")))),
        [(ERROR, "unwritable", ("b",), "/home/me belongs to root (mode 755), and the workers run as me")],
    ),
    "a way that another user may change": (
        cluster(host("b", answers(unsafe=(f"/data: it belongs to eve{WOULD_RUN}; name another `run_dir`",)))),
        [(ERROR, "unsafe", ("b",), "/data: it belongs to eve")],
    ),
    "little room": (
        cluster(host("b", answers(room=replace(ROOM, free=10**8)))),
        [(WARNING, "disk_low", ("b",), "little room for /home/me/runs: 100 MB of 200 GB are free")],
    ),
    "a disk that two share": (
        cluster(host("a", answers(seen=("b",))), host("b", answers(seen=("a",)))),
        [(NOTE, "shared", ("a", "b"), "a and b share the disk of the output directory")],
    ),
    # surroundings
    "a clock that is a day ahead": (
        cluster(host("b", facts=HostFacts(addresses=("10.0.0.2",), machine="b", ahead=86399.8))),
        [(WARNING, "clock", ("b",), "its clock is 1 day ahead of this machine's")],
    ),
    "a proxy": (
        cluster(host("b", answers(surroundings=Surroundings({"HTTPS_PROXY": "http://p:3128", "no_proxy": "x"})))),
        [(NOTE, "proxy", ("b",), "a proxy is set: HTTPS_PROXY=http://p:3128")],
    ),
    "a public address": (
        cluster(host("b", facts=HostFacts(addresses=("10.0.0.2", "8.8.8.8", "2600::1"), machine="b"))),
        [(NOTE, "public_address", ("b",), "it has the public addresses 8.8.8.8 and 2600::1")],
    ),
    "a public address of a host whose ports are not held": (
        cluster(host("b", facts=HostFacts(addresses=("8.8.8.8",), machine="b"), hold_ports=False)),
        [(WARNING, "public_address", ("b",), "it has the public address 8.8.8.8")],
    ),
    "a kernel that cannot keep strangers off": (
        cluster(host("b", answers(gate="Protocol not available"))),
        [(WARNING, "gate", ("b",), "its kernel cannot keep strangers off the workers' ports: Protocol not available")],
    ),
    "such a kernel where the ports are open by the cluster file": (
        cluster(host("b", answers(gate="Protocol not available"), hold_ports=False)),
        [],
    ),
    "such a kernel and a public address": (
        cluster(
            host("b", answers(gate="Protocol not available"), facts=HostFacts(addresses=("8.8.8.8",), machine="b"))
        ),
        [
            (WARNING, "gate", ("b",), "its kernel cannot keep strangers off"),
            (WARNING, "public_address", ("b",), "it has the public address 8.8.8.8"),
        ],
    ),
    "few open files": (
        cluster(host("b", answers(surroundings=Surroundings(open_files=256)))),
        [(WARNING, "open_files", ("b",), "a program may open only 256 files")],
    ),
    "no limit of open files": (cluster(host("b", answers(surroundings=Surroundings(open_files=-1)))), []),
    "an encoding of the last century": (
        cluster(host("b", answers(surroundings=Surroundings(encoding="ansi_x3.4-1968")))),
        [(WARNING, "encoding", ("b",), "Python prints ansi_x3.4-1968 there, not UTF-8")],
    ),
    # ports
    "a port that one host does not reach": (
        cluster(dialled={dial("a", "b"): "no answer in 3 s", dial("c", "b"): ""}),
        [(ERROR, "reach", ("a", "b"), "a cannot reach b at 10.0.0.2, port 2000: no answer in 3 s")],
    ),
    "the second port of a host": (
        cluster(dialled={dial("a", "b"): "", dial("a", "b", port=2001): "Connection refused"}),
        [(ERROR, "reach", ("a", "b"), "a cannot reach b at 10.0.0.2, port 2001: Connection refused")],
    ),
    "an address that nobody reaches": (
        cluster(dialled={dial("a", "b"): "No route to host", dial("c", "b"): "No route to host"}),
        [(ERROR, "reach", ("a", "c", "b"), "a and c cannot reach b at 10.0.0.2, port 2000: No route to host")],
    ),
    "the likeliest address is passed over": (
        cluster(dialled={dial("a", "b", "192.168.0.9"): "Connection refused", dial("a", "b"): ""}),
        [(NOTE, "passed_over", ("b",), "a cannot reach it at 192.168.0.9; 10.0.0.2 is taken, which all reach")],
    ),
    "an address after the one that is taken does not matter": (
        cluster(dialled={dial("a", "b"): "", dial("a", "b", "172.17.0.1"): "Connection refused"}),
        [],
    ),
    "no address at all": (
        cluster(addresses={"a": "10.0.0.1", "c": "10.0.0.3"}),
        [(ERROR, "address", ("b",), "no address was found")],
    ),
    # the network
    "a slow link": (
        cluster(speeds={("a", "b"): LINK, ("b", "a"): replace(LINK, rate=GB / 10)}),
        [(WARNING, "slow_link", ("b", "a"), "from b to a: 800 Mbit/s, while the fastest link does 8 Gbit/s")],
    ),
    "a link that is slower than its cards": (
        cluster(
            *(host(name, answers(network_cards={ADDRESSES[name]: NetworkCard("eth0", 1500, 1000)})) for name in NAMES),
            speeds={("a", "b"): replace(LINK, rate=GB / 100)},
        ),
        [(WARNING, "slow_link", ("a", "b"), "from a to b: 80 Mbit/s, while their cards promise 1 Gbit/s")],
    ),
    "a card that runs slower than the others": (
        cluster(
            *(
                host(
                    name,
                    answers(network_cards={ADDRESSES[name]: NetworkCard("eth0", 1500, 100 if name == "b" else 25000)}),
                )
                for name in NAMES
            )
        ),
        [(WARNING, "card_speed", ("b",), "its network card runs at 100 Mbit/s, elsewhere at 25 Gbit/s")],
    ),
    "packets of another size": (
        cluster(host("b", answers(network_cards={"10.0.0.2": NetworkCard("eth0", 9000, 0)}))),
        [(WARNING, "mtu", ("b",), "its network card takes packets of up to 9000 bytes, elsewhere 1500")],
    ),
    "a link that breaks": (
        cluster(speeds={("a", "b"): Speed(reason="nothing arrived in time")}),
        [
            (
                WARNING,
                "not_measured",
                ("a", "b"),
                "from a to b: the speed could not be measured: nothing arrived in time",
            )
        ],
    ),
    # silences
    "a host that hangs": (
        cluster(host("b", answers(room=None, unwritable=None), silence="no answer in 20 s")),
        [
            (
                ERROR,
                "silence",
                ("b",),
                "it did not tell room on the disk and whether the output directory can be written: no answer in 20 s",
            )
        ],
    ),
    "TensorFlow that kills its process": (
        cluster(
            host("b", silence="it was ended by SIGILL"),
            *(host(n, answers(tensorflow=TensorFlowFound("2", 0, "", ""))) for n in "ac"),
            imports=True,
        ),
        [(ERROR, "silence", ("b",), "it did not tell whether TensorFlow can be imported: it was ended by SIGILL")],
    ),
    "something that could not be found out": (
        cluster(host("b", answers(gpus=None, trouble=(("gpus", "ValueError: x"),)))),
        [(WARNING, "trouble", ("b",), "GPUs could not be found out: ValueError: x")],
    ),
}


@pytest.mark.parametrize(("examination", "expected"), CASES.values(), ids=CASES)
def test_what_is_found(examination: Examination, expected: list[tuple[Severity, str, tuple[str, ...], str]]) -> None:
    found = [each for each in diagnosed(examination) if each.check not in EXPECTED]

    assert [(each.severity, each.check, each.hosts) for each in found] == [each[:3] for each in expected]
    for finding, (*_, text) in zip(found, expected, strict=True):
        assert text in finding.what


@pytest.mark.parametrize("examination", [examination for examination, _ in CASES.values()], ids=CASES)
def test_every_finding_says_why_it_matters_and_an_error_says_what_to_do(examination: Examination) -> None:
    found = diagnosed(examination)

    assert all(each.why for each in found)
    assert all(each.remedy for each in found if each.severity is ERROR)


def test_the_worst_comes_last() -> None:
    bad = answers(unwritable="No space left on device", surroundings=Surroundings(open_files=1))
    severities = [each.severity for each in diagnosed(cluster(host("b", bad)))]

    assert severities == sorted(severities)
    assert severities[-1] is ERROR


def test_the_same_on_several_hosts_is_told_once() -> None:
    found: list[Finding] = diagnosed(cluster(*(host(name, answers(packages={})) for name in NAMES)))

    assert [each.hosts for each in found if each.check == "tensorflow"] == [NAMES]


def test_an_address_that_nobody_reaches_is_doubted() -> None:
    nobody = cluster(dialled={dial("a", "b", "10.0.0.2"): "x", dial("c", "b"): "x"})
    one = cluster(dialled={dial("a", "b"): "x", dial("c", "b"): ""})

    (doubted,) = (each for each in diagnosed(nobody) if each.check == "reach")
    (blocked,) = (each for each in diagnosed(one) if each.check == "reach")
    assert doubted.remedy.startswith("is that an address of b? It has 10.0.0.2.")
    assert blocked.remedy.startswith("open port 2000 in the firewall of b")


def test_what_a_step_takes_is_told_with_its_slowest_link() -> None:
    speeds = dict.fromkeys([("a", "b"), ("b", "c"), ("c", "a")], LINK) | {("b", "c"): Speed(rate=5e8, round_trip=1e-3)}
    (network,) = (each for each in diagnosed(cluster(speeds=speeds)) if each.check == "network")

    assert "the slowest link, from b to c, does 4 Gbit/s with a round trip of 1 ms" in network.what
    assert "100 MB of gradients (an example) among 3 workers takes about 269 ms a step" in network.what
