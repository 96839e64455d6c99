"""What holds for every cluster file there could be."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.cluster.cluster import Cluster, Host, PortRange, RestartLimits, Ssh, Timeouts
from launcher.cluster.defaults import DEFAULT_COMMAND
from launcher.cluster.file.reading import read_cluster_file
from launcher.cluster.redaction import redacted_text
from launcher.cluster.spec import number_tasks
from launcher.errors import ClusterFileError

# Without YAML 1.1's rarer line breaks: PyYAML writes them unescaped, so that it cannot read them back either.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\x85\u2028\u2029\ufeff"), max_size=20)
PATH = TEXT.filter(str.strip)
NAME = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,15}", fullmatch=True)
SECONDS = st.integers(1, 10_000)
VARIABLE = st.from_regex(r"[A-Z_]{1,8}", fullmatch=True).filter(lambda key: key != "TF_CONFIG")
ENV = st.dictionaries(VARIABLE, TEXT, max_size=3)
WORDS = st.lists(TEXT, max_size=4)
COUNTS = st.fixed_dictionaries({"worker": st.integers(1, 3)}, optional={"ps": st.integers(0, 2)})
PORTS = st.tuples(st.integers(1, 60_000), st.integers(10, 5000)).map(lambda span: (span[0], span[0] + span[1]))
SHARED = {
    "tasks": COUNTS,
    "gpus": st.just([]),
    "python": PATH,
    "workdir": PATH,
    "env": ENV,
    "ports": PORTS,
    "hold_ports": st.booleans(),
    "run_dir": PATH,
}
SSH = st.fixed_dictionaries({}, optional={"config": PATH, "connect_timeout": SECONDS, "options": WORDS})
ADDRESS = st.ip_addresses().filter(lambda address: not address.is_loopback).map(str)
HOST = st.fixed_dictionaries(
    {"host": NAME.filter(lambda name: name != "localhost")}, optional={"address": ADDRESS, "ssh": SSH, **SHARED}
)
ANY_FILE: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"hosts": st.lists(HOST, min_size=1, max_size=3, unique_by=lambda host: host["host"])},
    optional={
        "name": NAME,
        "defaults": st.fixed_dictionaries({}, optional=SHARED),
        "ssh": SSH,
        "command": WORDS.filter(bool),
        "per_task": st.fixed_dictionaries({}, optional={"worker": WORDS.filter(bool)}),
        "restart": st.fixed_dictionaries({}, optional={"max_restarts": st.integers(0, 9), "backoff": SECONDS}),
        "timeouts": st.fixed_dictionaries(
            {}, optional=dict.fromkeys(["start", "stall", "grace", "failure_grace", "evaluator", "lease"], SECONDS)
        ),
        "collect": st.lists(NAME, max_size=3, unique=True),
        "collect_interval": SECONDS,
    },
)
FILE = ANY_FILE.filter(lambda file: all(host.get("address") not in ("0.0.0.0", "::") for host in file["hosts"]))
ANY_PATH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)


def expected_host(host: dict[str, Any], file: dict[str, Any], tasks: tuple[Any, ...]) -> Host:
    defaults, shared, own = file.get("defaults", {}), file.get("ssh", {}), host.get("ssh", {})
    ssh = shared | own
    merged = defaults | host | {"env": defaults.get("env", {}) | host.get("env", {})}
    return Host(
        name=merged["host"],
        tasks=tasks,
        address=merged.get("address"),
        gpus=() if "gpus" in merged else None,
        python=merged.get("python"),
        workdir=merged.get("workdir"),
        env=merged["env"],
        ports=PortRange(*merged["ports"]) if "ports" in merged else None,
        hold_ports=merged.get("hold_ports", True),
        runs_dir=merged.get("run_dir"),
        ssh=Ssh(
            ssh.get("config"), ssh.get("connect_timeout", 10), (*own.get("options", ()), *shared.get("options", ()))
        ),
    )


def expected_file(file: dict[str, Any]) -> Cluster:
    """What a file means, worked out in another way than the reader does."""
    defaults = file.get("defaults", {})
    counts = [(defaults | host).get("tasks", {"worker": 1}) for host in file["hosts"]]
    return Cluster(
        name=redacted_text(file.get("name", "c")),
        hosts=tuple(
            expected_host(host, file, tasks) for host, tasks in zip(file["hosts"], number_tasks(counts), strict=True)
        ),
        command=tuple(file.get("command", DEFAULT_COMMAND)),
        restart=RestartLimits(**file.get("restart", {})),
        timeouts=Timeouts(**file.get("timeouts", {})),
        collect=tuple(file.get("collect", (".",))),
        per_task={kind: tuple(words) for kind, words in file.get("per_task", {}).items()},
        collect_interval=file.get("collect_interval", 60.0),
    )


def written(value: Any, key: str = "") -> Any:
    """The same value as one writes it: ports as a range, a host's only type of task as `workers`."""
    if key == "ports":
        return f"{value[0]}-{value[1]}"
    if isinstance(value, dict):
        workers = {"workers": value["tasks"]["worker"]} if list(value.get("tasks", ())) == ["worker"] else {}
        return workers | {k: written(v, k) for k, v in value.items() if not (workers and k == "tasks")}
    return [written(item) for item in value] if isinstance(value, list) else value


@ANY_PATH
@given(file=FILE, flow=st.sampled_from([None, False, True]), unicode=st.booleans(), bom=st.sampled_from(["", "\ufeff"]))
def test_a_correct_file_means_what_it_says(
    tmp_path: Path, file: Any, flow: bool | None, unicode: bool, bom: str
) -> None:
    text = yaml.safe_dump(written(file), default_flow_style=flow, allow_unicode=unicode)
    path = tmp_path / "c.yaml"
    path.write_bytes((bom + text).encode())

    assert read_cluster_file(path)._replace(source=None) == expected_file(file)


@ANY_PATH
@given(words=WORDS.filter(bool))
def test_a_command_is_the_same_as_a_text_and_as_a_list(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({"hosts": [{"host": "a"}], "command": shlex.join(words)}))

    assert read_cluster_file(path).command == tuple(words)


def is_read_or_refused(path: Path, content: bytes) -> None:
    """A `Cluster`, or a `ClusterFileError` with a place for every mistake; never anything else."""
    path.write_bytes(content)
    try:
        read_cluster_file(path)
    except ClusterFileError as error:
        mistakes = error.mistakes
    else:
        return
    assert mistakes
    assert all(mistake.line >= 1 and mistake.column >= 1 for mistake in mistakes)
    assert not any("\n" in mistake.message for mistake in mistakes)


@ANY_PATH
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    is_read_or_refused(tmp_path / "c.yaml", content)


BLOCKS = [
    "hosts",
    "host",
    "workers",
    "tasks",
    "env",
    "localhost",
    "1",
    "010",
    "yes",
    "~",
    "{",
    "}",
    "[",
    "]",
    "*a",
    "<<",
    "!",
    "---",
    "...",
    "|",
    ">",
    "?",
    "#",
    "%",
    "@",
    "`",
    "=",
    "2026-11-20",
    "1e3",
]
SPACED = [": ", "- ", ", ", "\n", "\n  ", "&a ", "!!str ", "!x ", "\t", "\r", "\u2028", "\x85", "é"]
QUOTED = ["'", '"', "\\", '"\\0"', '"\\ud800"']
YAML_LIKE = st.lists(st.sampled_from([*BLOCKS, *SPACED, *QUOTED]), max_size=40).map("".join)


@ANY_PATH
@given(text=st.text(max_size=100) | YAML_LIKE)
def test_any_text_is_read_or_refused(tmp_path: Path, text: str) -> None:
    is_read_or_refused(tmp_path / "c.yaml", text.encode("utf-8", "surrogatepass"))


EXAMPLES = [path.read_bytes() for path in sorted(Path(__file__).parents[2].glob("cluster_configs/*.yaml"))]


@ANY_PATH
@given(data=st.data(), example=st.sampled_from(EXAMPLES))
def test_any_change_of_an_example_is_read_or_refused(tmp_path: Path, data: st.DataObject, example: bytes) -> None:
    start = data.draw(st.integers(0, len(example)))
    end = data.draw(st.integers(start, min(len(example), start + 20)))
    put = data.draw(st.binary(max_size=5) | YAML_LIKE.map(str.encode))

    is_read_or_refused(tmp_path / "c.yaml", example[:start] + put + example[end:])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@ANY_PATH
@given(file=FILE, data=st.data(), value=VALUES)
def test_any_value_in_any_place_is_read_or_refused(tmp_path: Path, file: Any, data: st.DataObject, value: Any) -> None:
    sections = [value for value in file.values() if isinstance(value, dict) and value]
    part = data.draw(st.sampled_from([file, file["hosts"][0], *sections]))
    part[data.draw(st.sampled_from(sorted(part)))] = value

    is_read_or_refused(tmp_path / "c.yaml", yaml.safe_dump(file).encode())


@ANY_PATH
@given(text=YAML_LIKE)
def test_pyyamls_own_parser_is_as_safe(tmp_path: Path, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(yaml, "CSafeLoader", raising=False)
        is_read_or_refused(tmp_path / "c.yaml", text.encode())
