"""What a correct cluster file means."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.cluster.cluster import Cluster, Host, PortRange, RestartLimits, Ssh, Sync, Timeouts
from launcher.cluster.file.keys import ROOT, json_schema
from launcher.cluster.file.reading import read_cluster_file
from launcher.cluster.file.value_structures import ListOf, Section, Shorthand
from launcher.cluster.spec import Task

Read = Callable[[str | bytes], Cluster]

REPOSITORY = Path(__file__).resolve().parents[2]
TWO_LOCAL = (Host("localhost", (Task("worker", 0), Task("worker", 1))),)

EVERY_KEY = """
name: every_key
hosts:
  - host: gpu-a
    address: 10.0.0.11
    tasks: {chief: 1, worker: 1}
    gpus: [0, 1]
    python: /usr/bin/python3
    workdir: ~/here
    env: {NCCL_DEBUG: INFO}
    ports: 20000-20009
    hold_ports: false
    run_dir: /scratch/runs
    ssh: {config: ~/.ssh/gpu, options: ["-p", "2222"]}
  - host: me@gpu-b
defaults:
  workers: 3
  python: ~/venv/bin/python
  workdir: ~/project
  env: {NCCL_DEBUG: WARN, OTHER: 1}
ssh: {config: ~/.ssh/config, connect_timeout: 500ms, options: ["-J", bastion]}
command: [python, train.py, --epochs, 3]
restart: {max_restarts: 3, backoff: 2s}
sync: {from: .., exclude: ["*.ckpt", data/], gitignore: false}
timeouts: {start: 60, stall: 10m, grace: 1.5s, failure_grace: 0, evaluator: 10m, lease: 1h}
collect: [checkpoints, export/1]
collect_interval: 5m
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str | bytes) -> Cluster:
        path = tmp_path / "two_local.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_cluster_file(path)._replace(source=None)

    return read


def test_every_key_is_read(read: Read, tmp_path: Path) -> None:
    expected = Cluster(
        name="every_key",
        hosts=(
            Host(
                name="gpu-a",
                tasks=(Task("chief", 0), Task("worker", 0)),
                address="10.0.0.11",
                gpus=(0, 1),
                python="/usr/bin/python3",
                workdir="~/here",
                env={"NCCL_DEBUG": "INFO", "OTHER": "1"},
                ports=PortRange(20000, 20009),
                hold_ports=False,
                runs_dir="/scratch/runs",
                ssh=Ssh("~/.ssh/gpu", 0.5, ("-p", "2222", "-J", "bastion")),
            ),
            Host(
                name="me@gpu-b",
                tasks=(Task("worker", 1), Task("worker", 2), Task("worker", 3)),
                python="~/venv/bin/python",
                workdir="~/project",
                env={"NCCL_DEBUG": "WARN", "OTHER": "1"},
                ssh=Ssh("~/.ssh/config", 0.5, ("-J", "bastion")),
            ),
        ),
        command=("python", "train.py", "--epochs", "3"),
        restart=RestartLimits(3, 2.0),
        timeouts=Timeouts(60.0, 600.0, 1.5, 0.0, 600.0, 3600.0),
        collect=("checkpoints", "export/1"),
        sync=Sync(tmp_path.parent, ("*.ckpt", "data/"), gitignore=False),
        collect_interval=300.0,
    )

    assert read(EVERY_KEY) == expected


def test_the_shortest_file_is_a_name_from_the_path_and_defaults(read: Read) -> None:
    assert read("hosts: [{host: localhost, workers: 2}]") == Cluster("two_local", TWO_LOCAL)


def test_a_host_that_does_not_say_runs_one_worker(read: Read) -> None:
    assert read("hosts: [{host: a}]").hosts[0].tasks == (Task("worker", 0),)


def test_the_project_is_named_from_the_cluster_file_on(read: Read, tmp_path: Path) -> None:
    assert read("hosts: [{host: a}]\nsync: .\n").sync == Sync(tmp_path)


def test_tasks_start_in_the_project_where_the_file_names_no_workdir(read: Read, tmp_path: Path) -> None:
    file = read("hosts: [{host: localhost}, {host: a}, {host: b, workdir: ~/own}]\nsync: .\n")

    here, there, own = (host.workdir or "" for host in file.hosts)
    assert here == str(tmp_path)
    assert re.fullmatch(rf"~/\.tf-launch/projects/{tmp_path.name}-[0-9a-f]{{8}}", there)
    assert own == "~/own"


def test_two_projects_of_one_name_never_share_a_directory(tmp_path: Path) -> None:
    files = [tmp_path / parent / "project" / "c.yaml" for parent in ("a", "b")]
    for path in files:
        path.parent.mkdir(parents=True)
        path.write_text("hosts: [{host: a}]\nsync: .\n")

    first, second = (read_cluster_file(path).hosts[0].workdir for path in files)
    assert first != second


def test_a_byte_order_mark_is_accepted(read: Read) -> None:
    assert read(b"\xef\xbb\xbfhosts: [{host: localhost, workers: 2}]\r\n").hosts == TWO_LOCAL


def test_an_alias_stands_for_its_anchor(read: Read) -> None:
    hosts = read("hosts:\n - {host: a, env: &e {A: x}}\n - {host: b, env: *e}\n").hosts

    assert [host.env for host in hosts] == [{"A": "x"}, {"A": "x"}]


@pytest.mark.parametrize(
    "value", ["true", "yes", "on", "010", "1e3", "3.10", "0x1F", "1:30", "2026-11-20", "-1", ".inf"]
)
def test_a_value_of_env_stays_as_it_is_written(read: Read, value: str) -> None:
    assert read(f"hosts: [{{host: a, env: {{KEY: {value}}}}}]").hosts[0].env == {"KEY": value}


@pytest.mark.parametrize("key", ["on", "NO", "1"])
def test_a_key_of_env_stays_as_it_is_written(read: Read, key: str) -> None:
    assert read(f"hosts: [{{host: a, env: {{{key}: x}}}}]").hosts[0].env == {key: "x"}


def test_a_hosts_tasks_replace_the_workers_of_the_defaults(read: Read) -> None:
    file = read("hosts: [{host: a, tasks: {chief: 1}}, {host: b}]\ndefaults: {workers: 2}\n")

    assert [len(host.tasks) for host in file.hosts] == [1, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python train.py --name 'two words'", ("python", "train.py", "--name", "two words")),
        ("[sh, -c, 'echo a; echo b', 0.10, yes]", ("sh", "-c", "echo a; echo b", "0.10", "yes")),
        ("|\n  ./run\n  --fast\n", ("./run", "--fast")),
    ],
)
def test_a_command_is_a_list_or_a_text_split_as_a_shell_does(read: Read, text: str, words: tuple[str, ...]) -> None:
    assert read(f"hosts: [{{host: a}}]\ncommand: {text}").command == words


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("20000-20999", PortRange(20000, 20999)),
        ("20000", PortRange(20000, 20000)),
        ("[20001, 20000]", PortRange(20000, 20001)),
        ("'1 - 65535'", PortRange(1, 65535)),
    ],
)
def test_ports_are_a_range_a_number_or_a_list(read: Read, text: str, ports: PortRange) -> None:
    assert read(f"hosts: [{{host: a, ports: {text}}}]").hosts[0].ports == ports


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("10s", 10), ("10m", 600), ("1h", 3600), ("7", 7), ("0.5", 0.5), ("'2'", 2)]
)
def test_a_duration_has_a_unit_or_is_in_seconds(read: Read, text: str, seconds: float) -> None:
    assert read(f"hosts: [{{host: a}}]\ntimeouts: {{start: {text}}}").timeouts.start == seconds


@pytest.mark.parametrize("address", ["10.0.0.1", "node-1.example.org", "fe80::1%eth0", "'[fe80::1%eth0]'"])
def test_an_address_is_kept_without_brackets(read: Read, address: str) -> None:
    assert read(f"hosts: [{{host: a, address: {address}}}]").hosts[0].address == address.strip("'[]")


def test_an_empty_list_is_not_the_same_as_nothing(read: Read) -> None:
    file = read("hosts: [{host: a, gpus: []}]\ncollect: []")

    assert file.hosts[0].gpus == ()
    assert file.collect == ()


def test_a_name_with_a_newline_does_not_break_the_path(tmp_path: Path) -> None:
    path = tmp_path / "two\n'local\" .yaml"
    path.write_text("hosts: [{host: localhost, workers: 2}]")

    assert read_cluster_file(path)._replace(source=None) == Cluster("two\n'local\" ", TWO_LOCAL)


def test_the_environment_is_not_in_a_files_repr(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("hosts: [{host: a, env: {PASSWORD: hunter2}}]")

    assert "hunter2" not in repr(read_cluster_file(path))


def test_what_was_read_stays_whatever_becomes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("hosts:\n- host: a\n- host: b\n  env: {PASSWORD: hunter2}\n")
    source = read_cluster_file(path).source
    path.write_text("hosts: [")

    assert source is not None
    assert source.redacted() == "hosts:\n- host: a\n- host: b\n  env: {PASSWORD: <redacted>}\n"
    assert source.places.of(["a", "b"], "env") == [f"{path}:2", f"{path}:4"]
    assert source.places.of(["c"], "env") == []


def test_a_run_is_not_named_by_a_secret(read: Read) -> None:
    assert read("name: nightly token=hunter2\nhosts: [{host: a}]").name == "nightly token=<redacted>"


@pytest.mark.parametrize("path", sorted(REPOSITORY.glob("cluster_configs/*.yaml")), ids=lambda path: path.name)
def test_every_example_is_correct(path: Path) -> None:
    assert read_cluster_file(path).hosts


def test_the_schema_for_editors_is_current() -> None:
    file = REPOSITORY / "launcher" / "cluster" / "file" / "schema.json"

    remedy = "write json.dumps(json_schema(), indent=2) and a newline to it"
    assert json.loads(file.read_text()) == json_schema(), remedy


def keys_of(section: Section) -> set[str]:
    """The keys of a section and of what it holds."""
    inner = [kind.item if isinstance(kind, ListOf) else kind for kind in section.keys.values()]
    inner = [kind.section if isinstance(kind, Shorthand) else kind for kind in inner]
    return set(section.keys).union(*(keys_of(kind) for kind in inner if isinstance(kind, Section)))


def test_the_documentation_describes_every_key_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|", (REPOSITORY / "docs" / "cluster_file.md").read_text(), re.MULTILINE)

    assert set(rows) == keys_of(ROOT)
