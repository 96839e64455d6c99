"""What workers find in their environment, and where a secret never stands."""

from __future__ import annotations

import json
import re
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from rig.processes import command_of, name_of
from support.launching import Launch, await_true, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]

VALUES = {
    "QUOTES": """it's "quoted" `so`""",
    "DOLLAR": "$HOME ${HOME} $(id) %s {0} \\n",
    "NEWLINES": "\nfirst\n\nsecond\n",
    "UTF8": "äöü 雪 \U0001f600",
    "EMPTY": "",
    "SPACES": "  two  words  ",
    "LARGE": "0123456789" * 10_000,
    "EQUALS": "=a=b=",
}
SECRET = "hunter2-\"'$x"


@pytest.mark.parametrize("task", ["worker-0", "worker-1"])
def test_values_of_the_cluster_file_arrive_intact(launch: Start, cluster: Cluster, task: str) -> None:
    found = launch(*cluster(env=VALUES), *program("report")).report(task)["env"]

    assert {key: found[key] for key in VALUES} == VALUES


def test_values_of_the_command_line_arrive_intact(launch: Start) -> None:
    values = {**VALUES, "NO_UTF8": "\udcff\udcfe"}
    options = [f"--env={key}={value}" for key, value in values.items()]

    found = launch("--workers", "1", *options, *program("report")).report()["env"]

    assert {key: found[key] for key in values} == values


def test_a_variable_without_a_value_is_passed_on(launch: Start, cluster: Cluster) -> None:
    options = *cluster(env={"SETTING": "from the file"}), "--env", "SETTING"

    assert launch(*options, *program("report"), env={"SETTING": "from here"}).report()["env"]["SETTING"] == "from here"


def test_each_worker_is_told_who_it_is(launch: Start) -> None:
    started = launch("--workers", "2", *program("report"))
    first, second = started.report("worker-0")["env"], started.report("worker-1")["env"]
    configs = [json.loads(each["TF_CONFIG"]) for each in (first, second)]

    assert [config["task"] for config in configs] == [{"type": "worker", "index": 0}, {"type": "worker", "index": 1}]
    assert configs[0]["cluster"] == configs[1]["cluster"]
    assert len(set(configs[0]["cluster"]["worker"])) == 2


def test_every_task_of_a_mixed_cluster_sees_its_own_tf_config(launch: Start, cluster: Cluster) -> None:
    tasks = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}
    script = 'echo "$TF_CONFIG"; case "$TF_CONFIG" in *evaluator*|*\'"type": "ps"\'*) exec sleep 1000;; esac'
    started = launch(*cluster(tasks=tasks), "--", "sh", "-c", script)
    started.await_log(b"cluster", "ps-0", "evaluator-0")
    assert started.succeeded()
    training = ("chief-0", "worker-0", "worker-1", "ps-0")
    configs = {task: json.loads(started.log(task)) for task in (*training, "evaluator-0")}

    assert {f"{config['task']['type']}-{config['task']['index']}": config for config in configs.values()} == configs
    (shared,) = {json.dumps(configs[task]["cluster"], sort_keys=True) for task in training}
    sizes = {kind: len(addresses) for kind, addresses in json.loads(shared).items()}
    assert sizes == {"chief": 1, "worker": 2, "ps": 1}
    assert list(configs["evaluator-0"]["cluster"]) == ["evaluator"]


def test_the_contract_with_the_program_holds(launch: Start) -> None:
    started = launch("--workers", "1", *program("report"))
    found = started.report()["env"]

    assert found["TF_GRPC_REUSE_PORT"] == "true"
    assert found["LAUNCH_RUN_ID"] == started.run_state["run_id"]
    assert re.fullmatch(rf"{started.run_directory.name}-[0-9a-f]{{16}}", found["LAUNCH_RUN_ID"])
    assert found["LAUNCH_ATTEMPT"] == "0"
    assert Path(found["LAUNCH_OUTPUT_DIR"]) == started.run_directory / "chief"
    assert Path(found["LAUNCH_PROGRESS"]).parent == started.run_directory / "attempt-0"
    assert found["PYTHONUNBUFFERED"] == "1"


# ---- secrets
def everything_written(started: Launch) -> bytes:
    files = [path for path in started.run_directory.rglob("*") if path.is_file() and path.suffix != ".log"]
    assert {"run.json", "plan.json", "events.jsonl"} <= {path.name for path in files}
    return b"".join(path.read_bytes() for path in files)


def test_a_secret_stands_in_no_file_of_the_run_directory(launch: Start, cluster: Cluster) -> None:
    options = cluster(env={"API_KEY": SECRET, "URL": f"https://user:{SECRET}@host/"})
    started = launch(*options, "--env", "OTHER_TOKEN", *program("report"), env={"OTHER_TOKEN": SECRET})
    found = started.report()["env"]

    assert found["API_KEY"] == found["OTHER_TOKEN"] == SECRET
    assert b"hunter2" not in everything_written(started)
    assert (started.run_directory / "cluster.yaml").exists()


def test_a_secret_is_not_said_on_the_console(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(env={"API_KEY": SECRET}), "--", "false")

    assert started.wait() == 1
    assert "hunter2" not in started.stdout + started.stderr


def test_a_dry_run_of_a_file_of_others_cannot_harm_a_terminal(launch: Start, cluster: Cluster) -> None:
    evil = "a\x1b]0;TITLE\x07\x1b[2J\u202e"
    started = launch(*cluster(env={"A": evil}, workdir=f"/{evil}"), "--dry-run", "--", "echo", ":bomb:", evil)

    assert started.succeeded()
    assert all(each.isprintable() or each == "\n" for each in started.stdout)
    assert "  command  echo :bomb: 'a\\x1b]0;" in started.stdout


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_secret_is_not_shown_by_a_dry_run(launch: Start, cluster: Cluster, form: tuple[str, ...]) -> None:
    started = launch(*cluster(env={"API_KEY": SECRET, "PLAIN": "shown"}), "--dry-run", *form, "--", "true")

    assert started.succeeded()
    assert "hunter2" not in started.stdout
    assert "shown" in started.stdout
    assert not started.runs.exists()


def test_a_secret_of_the_command_stands_in_no_file_and_on_no_console(launch: Start, cluster: Cluster) -> None:
    command = ("sh", "-c", f"API_KEY={SECRET[:7]} true", "--password", SECRET, "-H", f"X-Api-Key: {SECRET}")
    started = launch(*cluster(), "--", *command)

    assert started.succeeded()
    assert b"hunter2" not in everything_written(started)
    assert "hunter2" not in started.stdout + started.stderr


def test_a_secret_of_the_cluster_files_own_command_and_comments_stands_in_no_file(
    launch: Start, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "# API_TOKEN: hunter2\nhosts: [{host: localhost}]\ncommand: [true, --api-key, hunter2, -phunter2]  # hunter2\n"
    )
    started = launch("--cluster", file)

    assert started.succeeded()
    assert b"hunter2" not in everything_written(started)


def test_the_password_of_a_proxy_stands_in_no_file(launch: Start) -> None:
    started = launch("--workers", "1", "--json", "--", "true", env={"https_proxy": "http://me:hunter2@proxy:3128"})

    assert started.succeeded()
    assert b"hunter2" not in everything_written(started)
    assert b"<redacted>" in (started.run_directory / "events.jsonl").read_bytes()
    assert "hunter2" not in started.stdout + started.stderr


@pytest.mark.parametrize(
    "mistake",
    ["env: API_TOKEN=hunter2", "env: {API_TOKEN=hunter2: 1}", "env: {API_TOKEN: *hunter2}", "env: {PASS: !hunter2 x}",
     "workers: API_TOKEN=hunter2", f"gpus: [{'x' * 50} password=hunter2]", "api_key=hunter2: 3"],
)  # fmt: skip
def test_a_mistake_in_the_file_is_told_without_its_secret(launch: Start, tmp_path: Path, mistake: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"hosts:\n- host: localhost\n  {mistake}\n")
    started = launch("--cluster", file)

    assert started.wait() == 2
    assert "cluster.yaml:3:" in started.stderr
    assert "hunter2" not in started.stdout + started.stderr


@pytest.mark.parametrize("option", ["--env==hunter2", "--env=API_TOKEN:hunter2", "--env=TF_CONFIG=hunter2"])
def test_a_mistake_on_the_command_line_is_told_without_its_secret(launch: Start, option: str) -> None:
    started = launch("--workers", "1", option, "--", "true")

    assert started.wait() == 2
    assert "hunter2" not in started.stderr


def test_no_value_stands_on_a_command_line(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(env={"API_KEY": SECRET, "PLAIN": "a value of its own"}), *program("stay", "die"))
    started.await_log(b"ready", "worker-0", "worker-1")
    names = {name_of(process) for process in started.alive()}
    lines = "\n".join(" ".join(command_of(process)) for process in started.alive())
    started.signal(15)

    assert {"launch-agent", "launch-guard"} <= names
    assert "hunter2" not in lines
    assert "a value of its own" not in lines
    assert "TF_CONFIG" not in lines
    assert started.wait() == 143


def test_a_dry_run_starts_and_writes_nothing(launch: Start, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))

    started = launch("--workers", "2", "--dry-run", "--json", "--", "touch", "started")

    assert started.succeeded()
    assert [task["argv"] for task in json.loads(started.stdout)["tasks"]] == [["touch", "started"]] * 2
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("form", "port"), [((), "<chosen at start>"), (("--json",), "0")], ids=["for a person", "for machines"]
)
def test_a_dry_run_claims_no_port_of_a_host_that_it_does_not_ask(
    launch: Start, tmp_path: Path, form: tuple[str, ...], port: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("hosts: [{host: gpu-a, address: 10.1.0.1}, {host: gpu-b, address: 10.1.0.2, ports: 20000-20009}]\n")

    started = launch("--cluster", file, "--dry-run", *form)

    assert started.succeeded()
    assert re.findall(r"10\.1\.0\.1:([^\"\\\n]+)", started.stdout) == [port] * 5
    assert re.findall(r"10\.1\.0\.2:([^\"\\\n]+)", started.stdout) == ["20000"] * 5


WHO = {
    "a local run": ("hosts: [{host: localhost}]", "loopback", "only this machine may connect to the tasks' ports, at "),
    "several hosts": (
        "hosts: [{host: a, address: 10.1.0.1}, {host: b, address: 10.1.0.2}]",
        "hosts",
        "only the hosts of the run may connect to the tasks' ports\n",
    ),
    "an open network": (
        "hosts: [{host: localhost}]\nnetwork: {open: true}",
        "all",
        "anybody may connect to the tasks' ports (network: {open: true})\n",
    ),
    "a host whose ports are not held": (
        "hosts: [{host: a, address: 10.1.0.1}, {host: b, address: 10.1.0.2, hold_ports: false}]",
        "hosts",
        "only the hosts of the run may connect to the tasks' ports; anybody to those on b (hold_ports: false)\n",
    ),
}


@pytest.mark.parametrize(("file", "admitted", "line"), WHO.values(), ids=WHO.keys())
def test_a_dry_run_tells_who_may_connect(launch: Start, tmp_path: Path, file: str, admitted: str, line: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(file)

    assert json.loads(launch("--cluster", path, "--dry-run", "--json").stdout)["admitted"] == admitted
    assert f"network  {line}" in launch("--cluster", path, "--dry-run").stdout


def test_the_program_sees_progress_come_through(launch: Start) -> None:
    write = """echo '{"step": 7}' >> "$LAUNCH_PROGRESS"; while :; do sleep 0.05; done"""
    started = launch("--workers", "1", "--", "sh", "-c", write)
    await_true(lambda: any(each["type"] == "progress_made" for each in started.events), "a report of progress")
    started.signal(15)

    assert started.wait() == 143
    assert [json.loads(each["line"]) for each in started.events if each["type"] == "progress_made"] == [{"step": 7}]


def test_nothing_but_the_contract_is_added(launch: Start, environment: dict[str, str]) -> None:
    found = launch("--workers", "1", "--no-keras-fix", "--keep-tf-config", *program("report")).report()["env"]

    assert {key for key in found if found[key] != environment.get(key)} <= {
        "TF_CONFIG",
        "TF_GRPC_REUSE_PORT",
        "LAUNCH_RUN_ID",
        "LAUNCH_ATTEMPT",
        "LAUNCH_OUTPUT_DIR",
        "LAUNCH_PROGRESS",
        "LAUNCH_PID",
        "LAUNCH_TF_CONFIG",
        "PYTHONUNBUFFERED",
        "PWD",
        "LC_CTYPE",
    }


@pytest.mark.parametrize("place", ["option", "shell", "file"])
def test_what_we_add_to_a_python_can_be_switched_off(
    launch: Start, cluster: Cluster, environment: dict[str, str], place: str
) -> None:
    off = {"LAUNCH_KERAS_FIX": "0", "LAUNCH_TF_CONFIG": "0"}
    in_file = {"env": off} if place == "file" else {}
    in_shell = off if place == "shell" else {}
    options = ("--no-keras-fix", "--keep-tf-config") if place == "option" else ()
    started = launch(*cluster(workers=1, **in_file), *options, *program("report"), env=in_shell)
    found = started.report()["env"]

    assert found["PYTHONPATH"] == environment["PYTHONPATH"]
    assert found.get("LAUNCH_KERAS_FIX") == (None if place == "option" else "0")
    assert found["LAUNCH_TF_CONFIG"] == "0"


def test_a_program_knows_the_process_that_the_launcher_started(launch: Start) -> None:
    started = launch("--workers", "1", "--", "sh", "-c", "echo $LAUNCH_PID $$; sh -c 'echo $LAUNCH_PID'; true")
    assert started.succeeded()
    assert len(set(started.log("worker-0").split())) == 1


def test_a_python_that_is_named_from_home_finds_its_virtual_environment(
    launch: Start, cluster: Cluster, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    python = "~/venv/bin/python"
    started = launch(
        *cluster(workers=1, python=python),
        *("--", "python", "-c", "import sys; print(sys.prefix)"),
        env={"HOME": str(tmp_path)},
    )

    assert started.succeeded()
    assert started.stdout == f"[worker 0] {tmp_path}/venv\n"
