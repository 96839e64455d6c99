"""What a person and a machine read of an examination."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.file.reading import read_cluster_file
from launcher.cluster.spec import Task
from launcher.doctor.examination import Dial, Examination, Gradients, HostExamination
from launcher.doctor.findings import Finding, Severity
from launcher.doctor.report import as_record, as_text
from launcher.hosts.facts import HostFacts
from launcher.hosts.ssh_complaint import Complaint
from launcher.on_host.probe.answers import Answers, DiskRoom, Gpu, Gpus, PythonFound, Speed, Surroundings

FILE = """\
hosts:
  - host: gpu-a
    workers: 2
  - host: gpu-b
    address: 10.0.0.2
  - host: gpu-c
defaults:
  python: /venv/bin/python
"""
GPU = Gpu(0, "H100", 81559, 4)
TOLD = Answers(
    python=PythonFound("3.12.3", "/venv/bin/python"),
    packages={"tensorflow": "2.21.0"},
    surroundings=Surroundings({"http_proxy": "http://me:hunter2@proxy:3128"}),
    gpus=Gpus("570", "12.8", (GPU, GPU)),
    room=DiskRoom("/home/me/runs", 78 * 10**9, 200 * 10**9, "/home/me", "me", "755", "me"),
)
HOSTS = (
    HostExamination(Host("gpu-a", (Task("worker", 0),)), facts=HostFacts(addresses=("10.0.0.1",)), answers=TOLD),
    HostExamination(Host("gpu-b", (Task("worker", 1),)), facts=HostFacts(ahead=-7200.0)),
    HostExamination(Host("gpu-c", (Task("worker", 2),)), complaint=Complaint("it refused the login")),
)
EXAMINATION = Examination(
    Cluster("test", tuple(each.host for each in HOSTS)),
    HOSTS,
    Gradients(1e8, "an example"),
    addresses={"gpu-a": "10.0.0.1", "gpu-b": "10.0.0.2"},
    dialled={
        Dial("gpu-a", "gpu-b", "10.0.0.2", Task("worker", 1), 2001): "no answer in 3 s",
        Dial("gpu-b", "gpu-a", "10.0.0.1", Task("worker", 0), 2000): "",
    },
    speeds={("gpu-b", "gpu-a"): Speed(1.25e9, 1e-4, 3), ("gpu-a", "gpu-b"): Speed(reason="no answer")},
)
FINDINGS = [
    Finding(Severity.NOTE, "x").because("it is cosy").on(("gpu-a", "gpu-b"), "they are close"),
    Finding(Severity.ERROR, "y", "address", names_hosts=True)
    .because("nobody hears", "speak up")
    .on(("gpu-a", "gpu-b"), "gpu-a is deaf to gpu-b"),
    Finding(Severity.ERROR, "z", "python").because("it would fail", "get one").on("gpu-b", "no [bold]Python[/bold]"),
]


def read(tmp_path: Path) -> Examination:
    """With the places of the cluster file."""
    path = tmp_path / "cluster.yaml"
    path.write_text(FILE)
    cluster = EXAMINATION.cluster._replace(source=read_cluster_file(path).source)
    return replace(EXAMINATION, cluster=cluster)


def test_a_person_reads_a_line_for_each_host_then_the_findings(tmp_path: Path) -> None:
    text = as_text(read(tmp_path), FINDINGS, verbose=True).replace(f"{tmp_path}/", "")

    assert text == (
        "host   address      Python  TensorFlow  GPUs             free disk  clock\n"
        "gpu-a  10.0.0.1     3.12.3  2.21.0      2 x H100, 86 GB  78 GB      right\n"
        "gpu-b  10.0.0.2     ?       ?           ?                ?          2 h behind\n"
        "gpu-c  not reached\n"
        "\n"
        "from \\ to  gpu-a  gpu-b\n"
        "gpu-a      -      no answer in 3 s\n"
        "gpu-b      ok     -\n"
        "\n"
        "from   to     speed      round trip  packets sent again\n"
        "gpu-b  gpu-a  10 Gbit/s  100 µs      3\n"
        "gpu-a  gpu-b  no answer\n"
        "\n"
        "note: gpu-a and gpu-b: they are close\n"
        "  Why it matters: it is cosy\n"
        "\n"
        "error: gpu-a is deaf to gpu-b\n"
        "  Why it matters: nobody hears\n"
        "  What to do: speak up (cluster.yaml:2 and cluster.yaml:5)\n"
        "\n"
        "error: gpu-b: no [bold]Python[/bold]\n"
        "  Why it matters: it would fail\n"
        "  What to do: get one (cluster.yaml:8)\n"
        "\n"
        "2 errors and 1 note: mend the errors before you start a run.\n"
    )


def test_all_is_well_is_said_too(tmp_path: Path) -> None:
    assert as_text(EXAMINATION, []).endswith("\n\nAll is well: a run can start.\n")
    assert as_text(EXAMINATION, FINDINGS[:1]).endswith("\n\n1 note: a run can start.\n")


def test_long_lines_are_folded_on_a_terminal_only(tmp_path: Path) -> None:
    long = [Finding(Severity.NOTE, "x").because("because").on("gpu-a", "word " * 100)]

    assert max(map(len, as_text(EXAMINATION, long, width=60).splitlines())) <= 60
    assert max(map(len, as_text(EXAMINATION, long).splitlines())) > 500


def test_a_machine_reads_everything_and_no_secret(tmp_path: Path) -> None:
    record = json.loads(json.dumps(as_record(read(tmp_path), FINDINGS, 3)))

    assert (record["exit_code"], record["cluster"]) == (3, "test")
    assert [(each["host"], each["reached"]) for each in record["hosts"]] == [
        *(("gpu-a", True), ("gpu-b", True), ("gpu-c", False))
    ]
    assert record["hosts"][0]["gpus"]["devices"][0] == {"index": 0, "name": "H100", "memory": 81559, "used": 4}
    assert record["hosts"][0]["surroundings"]["proxies"] == {"http_proxy": "http://me:<redacted>@proxy:3128"}
    assert record["reach"][0] == {
        "from": "gpu-a",
        "to": "gpu-b",
        "address": "10.0.0.2",
        "port": 2001,
        "task": "worker-1",
        "reason": "no answer in 3 s",
    }
    assert record["network"][0] == {
        "from": "gpu-b",
        "to": "gpu-a",
        "bytes_a_second": 1_250_000_000,
        "round_trip": 1e-4,
        "retransmitted": 3,
        "reason": "",
    }
    assert record["estimate"] == {"gradient_bytes": 1e8, "source": "an example", "seconds_a_step": None}
    assert record["findings"][2] == {
        "severity": "error",
        "check": "z",
        "hosts": ["gpu-b"],
        "what": "no [bold]Python[/bold]",
        "why": "it would fail",
        "remedy": "get one",
        "places": [f"{tmp_path}/cluster.yaml:8"],
    }


def test_what_a_host_said_cannot_harm_a_terminal_and_the_record_keeps_it() -> None:
    evil = "\x1b[2J\x9b31m\u202e\rerror: \x1b]0;T\x07\nAll is well: a run can start."
    hosts = (
        HostExamination(
            Host("gpu-a", (Task("worker", 0),)),
            facts=HostFacts(addresses=(evil,)),
            answers=Answers(
                python=PythonFound(evil, evil),
                packages={"tensorflow": evil},
                gpus=Gpus("570", "12.8", (Gpu(0, evil, 81559, 4),)),
                room=DiskRoom(evil, 0, 1, evil, evil, evil, evil),
            ),
        ),
        HostExamination(Host("gpu-b", (Task("worker", 1),)), facts=HostFacts()),
    )
    examination = Examination(
        Cluster("test", tuple(each.host for each in hosts)),
        hosts,
        Gradients(1e8, "an example"),
        addresses={"gpu-a": evil, "gpu-b": "10.0.0.2"},
        dialled={Dial("gpu-a", "gpu-b", "10.0.0.2", Task("worker", 1), 2001): evil},
        speeds={("gpu-b", "gpu-a"): Speed(reason=evil)},
    )
    findings = [Finding(Severity.ERROR, "x").because(evil, evil).on("gpu-a", evil)]

    text = as_text(examination, findings, verbose=True)
    record = json.dumps(as_record(examination, findings, 3))

    assert all(each.isprintable() or each == "\n" for each in text)
    assert "\nAll is well" not in text
    assert json.loads(record)["findings"][0]["what"] == evil
    assert record.isprintable()
