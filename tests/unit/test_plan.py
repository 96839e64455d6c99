from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.defaults import DEFAULT_COMMAND
from launcher.cluster.plan import HostContext, TaskPlan, plan_attempt, python_of, thread_warnings, worker_argv
from launcher.cluster.spec import ClusterSpec, Task
from launcher.errors import UsageError

BOOTSTRAP, FIX = "/opt/launcher/bootstrap", "/opt/training/keras_fix"
CONTEXT = HostContext("/venv/bin/python", "/home/me", 8, "/runs/r/chief", "/runs/r", {}, BOOTSTRAP, None)


def tasks(**counts: int) -> tuple[Task, ...]:
    return tuple(Task(kind, index) for kind, count in counts.items() for index in range(count))


def planned(
    host: Host,
    environment: Mapping[str, str] | None = None,
    fix: str | None = None,
    command: tuple[str, ...] = ("python", "train.py"),
    per_task: Mapping[str, tuple[str, ...]] | None = None,
    program: str | None = None,
) -> dict[str, TaskPlan]:
    spec = ClusterSpec({task: f"127.0.0.1:{2000 + n}" for n, task in enumerate(host.tasks)})
    context = CONTEXT._replace(environment=environment or {}, keras_fix=fix, program=program)
    file = Cluster("test", (host,), command, per_task=per_task or {})
    plan = plan_attempt(file, spec, {host.name: context}, "r", attempt=1)
    return {each.task.slug: each for each in plan.tasks}


def warnings(host: Host) -> list[str]:
    spec = ClusterSpec({task: f"127.0.0.1:{2000 + n}" for n, task in enumerate(host.tasks)})
    return thread_warnings(Cluster("test", (host,)), spec, {host.name: CONTEXT})


TWO = Host("localhost", tasks(worker=2))


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (["python", "train.py", "-e", "3"], ("/venv/bin/python", "train.py", "-e", "3")),
        (["train.py", "-e", "3"], ("/venv/bin/python", "train.py", "-e", "3")),
        (["sh", "-c", "echo $HOME"], ("sh", "-c", "echo $HOME")),
        (["./binary", "python"], ("./binary", "python")),
        (["python3", "-m", "train"], ("/venv/bin/python", "-m", "train")),
        (["/usr/bin/python3", "x.py"], ("/usr/bin/python3", "x.py")),
    ],
)
def test_python_in_front_and_a_script_in_front_mean_the_hosts_own_python(
    command: list[str], argv: tuple[str, ...]
) -> None:
    assert worker_argv(command, "/venv/bin/python") == argv


def test_every_worker_gets_the_environment_that_the_contract_promises() -> None:
    env = planned(TWO)["worker-1"].env
    assert json.loads(env["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    assert {key: env[key] for key in sorted(env) if key.startswith("LAUNCH_")} == {
        "LAUNCH_ATTEMPT": "1",
        "LAUNCH_OUTPUT_DIR": "/runs/r/chief",
        "LAUNCH_PROGRESS": "/runs/r/attempt-1/worker-1.progress.jsonl",
        "LAUNCH_RUN_ID": "r",
        "LAUNCH_TF_CONFIG": env["TF_CONFIG"],
    }
    assert env["TF_GRPC_REUSE_PORT"] == "true"
    assert env["PYTHONUNBUFFERED"] == "1"


def test_logs_are_told_apart_by_attempt_and_task() -> None:
    plans = planned(TWO)
    assert [plan.log for plan in plans.values()] == ["/runs/r/attempt-1/worker-0.log", "/runs/r/attempt-1/worker-1.log"]


def test_workers_that_share_a_host_share_its_cores() -> None:
    env = planned(TWO)["worker-0"].env
    assert [env[key] for key in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")] == ["4"] * 3


def test_a_worker_alone_on_its_host_keeps_all_cores() -> None:
    assert "OMP_NUM_THREADS" not in planned(Host("localhost", tasks(worker=1)))["worker-0"].env


def test_a_thread_count_that_the_user_has_set_is_left_alone() -> None:
    by_file = planned(replace(TWO, env={"OMP_NUM_THREADS": "3"}))["worker-0"].env
    by_environment = planned(TWO, {"TF_NUM_INTRAOP_THREADS": "2"})["worker-0"].env
    assert by_file["OMP_NUM_THREADS"] == "3"
    assert "TF_NUM_INTRAOP_THREADS" not in by_file
    assert "OMP_NUM_THREADS" not in by_environment


PARAMETER_SERVERS = tasks(chief=1, worker=2, ps=1)
INTER_OP = "TF_NUM_INTEROP_THREADS"


def test_with_parameter_servers_each_task_can_wait_for_all_others_at_once() -> None:
    env = planned(Host("localhost", PARAMETER_SERVERS))["ps-0"].env
    assert (env["TF_NUM_INTRAOP_THREADS"], env[INTER_OP]) == ("2", "5")


def test_a_larger_share_of_the_cores_wins_over_what_parameter_servers_need() -> None:
    assert planned(Host("localhost", tasks(worker=1, ps=1)))["worker-0"].env[INTER_OP] == "4"
    assert planned(Host("localhost", tasks(ps=1)))["ps-0"].env[INTER_OP] == "8"


def test_other_thread_counts_of_the_user_leave_parameter_servers_what_they_need() -> None:
    env = planned(Host("localhost", PARAMETER_SERVERS), {"OMP_NUM_THREADS": "1"})["worker-1"].env
    assert ("OMP_NUM_THREADS" in env, "TF_NUM_INTRAOP_THREADS" in env, env[INTER_OP]) == (False, False, "5")


def test_the_users_own_number_stays_and_is_told_of_where_parameter_servers_would_hang() -> None:
    host = Host("gpu-a", PARAMETER_SERVERS, env={INTER_OP: "2"})
    assert planned(host)["worker-0"].env[INTER_OP] == "2"
    assert warnings(host) == [
        "gpu-a: TF_NUM_INTEROP_THREADS=2 is set; with parameter servers this cluster needs 5 or more, "
        "and hangs with fewer: raise it, or leave it out"
    ]


@pytest.mark.parametrize("enough", ["5", "0", "", "many"])
def test_a_number_that_may_do_is_not_spoken_of(enough: str) -> None:
    assert warnings(Host("gpu-a", PARAMETER_SERVERS, env={INTER_OP: enough})) == []
    assert warnings(Host("gpu-a", tasks(chief=1, worker=2), env={INTER_OP: "1"})) == []


def test_a_thread_for_each_core_may_be_too_few_for_parameter_servers() -> None:
    (warning,) = warnings(Host("gpu-a", tasks(chief=1, worker=7, ps=1), env={INTER_OP: "0"}))
    assert "needs 10 or more" in warning


def test_gpus_are_shared_out_equally_in_order_and_parameter_servers_get_none() -> None:
    plans = planned(Host("localhost", tasks(worker=2, ps=1), gpus=(0, 1, 2, 3)))
    visible = {name: plan.env["CUDA_VISIBLE_DEVICES"] for name, plan in plans.items()}
    assert visible == {"worker-0": "0,1", "worker-1": "2,3", "ps-0": "-1"}


def test_without_gpus_in_the_file_the_workers_see_what_there_is() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in planned(TWO)["worker-0"].env


def test_an_empty_list_of_gpus_hides_them_all() -> None:
    assert planned(replace(TWO, gpus=()))["worker-0"].env["CUDA_VISIBLE_DEVICES"] == "-1"


def test_gpus_that_cannot_be_shared_out_equally_are_an_error_that_says_so() -> None:
    with pytest.raises(UsageError, match=r"gpus \[0, 1, 2\] cannot be shared out equally among 2 workers"):
        planned(replace(TWO, gpus=(0, 1, 2)))


def test_a_proxy_does_not_catch_the_traffic_between_workers_and_keeps_all_other() -> None:
    env = planned(TWO, {"https_proxy": "http://proxy:3128", "no_proxy": "intranet"})["worker-0"].env
    assert env["no_grpc_proxy"] == "intranet,127.0.0.1"
    assert "no_proxy" not in env


def test_without_a_proxy_nothing_is_said_about_proxies() -> None:
    assert "no_grpc_proxy" not in planned(TWO)["worker-0"].env


def test_the_files_env_reaches_the_worker_but_never_replaces_the_cluster() -> None:
    env = planned(replace(TWO, env={"NCCL_DEBUG": "WARN", "TF_CONFIG": "{}", "LAUNCH_RUN_ID": "x"}))["worker-0"].env
    assert env["NCCL_DEBUG"] == "WARN"
    assert env["LAUNCH_RUN_ID"] == "r"
    assert env["TF_CONFIG"] != "{}"


def test_the_keras_fix_stands_before_the_users_own_path() -> None:
    env = planned(TWO, {"PYTHONPATH": "/home/me/lib"}, FIX)["worker-0"].env
    assert env["PYTHONPATH"] == "/opt/launcher/bootstrap:/home/me/lib"
    assert env["LAUNCH_KERAS_FIX"] == FIX


def test_without_the_keras_fix_the_bootstrap_still_brings_the_clusters_own_tf_config() -> None:
    env = planned(TWO, {"PYTHONPATH": "/home/me/lib"})["worker-0"].env
    assert env["PYTHONPATH"] == "/opt/launcher/bootstrap:/home/me/lib"
    assert env["LAUNCH_TF_CONFIG"] == env["TF_CONFIG"]
    assert "LAUNCH_KERAS_FIX" not in env


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (DEFAULT_COMMAND, "/opt/program:/home/me/lib"),
        (("python", "-m", "training"), "/home/me/lib:/opt/program"),
        (("python", "train.py"), "/home/me/lib"),
    ],
)
def test_our_training_program_comes_before_the_users_modules_only_where_no_command_is_named(
    command: tuple[str, ...], path: str
) -> None:
    env = planned(TWO, {"PYTHONPATH": "/home/me/lib"}, command=command, program="/opt/program")["worker-0"].env
    assert env["PYTHONPATH"] == f"{BOOTSTRAP}:{path}"


@pytest.mark.parametrize("off", ["0", "off", "No", "false"])
@pytest.mark.parametrize("switch", ["LAUNCH_KERAS_FIX", "LAUNCH_TF_CONFIG"])
def test_what_the_user_switches_off_is_left_out(switch: str, off: str) -> None:
    in_file = planned(replace(TWO, env={switch: off}), {}, FIX)["worker-0"].env
    on_host = planned(TWO, {switch: off}, FIX)["worker-0"].env
    assert in_file[switch] == off
    assert switch not in on_host  # where it is off already
    assert in_file["PYTHONPATH"] == on_host["PYTHONPATH"] == BOOTSTRAP


def test_without_anything_of_ours_the_path_is_the_users() -> None:
    off = {"LAUNCH_KERAS_FIX": "0", "LAUNCH_TF_CONFIG": "0"}
    assert "PYTHONPATH" not in planned(replace(TWO, env=off), {"PYTHONPATH": "/lib"}, FIX)["worker-0"].env
    assert not {"PYTHONPATH", *off} & set(planned(TWO, {**off, "PYTHONPATH": "/lib"}, FIX)["worker-0"].env)


def test_the_file_may_switch_the_fix_on_again_for_a_host() -> None:
    env = planned(replace(TWO, env={"LAUNCH_KERAS_FIX": "1"}), {"LAUNCH_KERAS_FIX": "0"}, FIX)["worker-0"].env
    assert env["LAUNCH_KERAS_FIX"] == FIX


def test_a_path_that_was_inherited_gives_way_to_our_own() -> None:
    env = planned(TWO, {"LAUNCH_KERAS_FIX": "/of/another/launch.py"}, FIX)["worker-0"].env
    assert env["LAUNCH_KERAS_FIX"] == FIX


def test_a_record_of_the_plan_shows_no_secret() -> None:
    record = planned(replace(TWO, env={"HF_TOKEN": "hunter2", "MODE": "fast"}))["worker-0"].as_record()
    assert "hunter2" not in json.dumps(record)
    assert record["env"]["MODE"] == "fast"


def test_each_task_gets_its_own_place_in_its_command_and_environment() -> None:
    host = replace(TWO, env={"PMI_RANK": "{rank}", "NOTE": '{{rank}} {"a": 1}'})

    plans = planned(host, command=("python", "train.py", "--job_name={type}", "--task_index={index}"))

    assert [plan.argv[2:] for plan in plans.values()] == [
        ("--job_name=worker", "--task_index=0"),
        ("--job_name=worker", "--task_index=1"),
    ]
    assert [plan.env["PMI_RANK"] for plan in plans.values()] == ["0", "1"]
    assert plans["worker-0"].env["NOTE"] == '{rank} {"a": 1}'
    assert json.loads(plans["worker-0"].env["TF_CONFIG"])


def test_a_task_whose_type_has_a_command_of_its_own_runs_that() -> None:
    host = Host("localhost", tasks(worker=1, ps=2))

    plans = planned(host, per_task={"ps": ("./serve", "{index}")})

    assert {name: plan.argv for name, plan in plans.items()} == {
        "worker-0": ("/venv/bin/python", "train.py"),
        "ps-0": ("./serve", "0"),
        "ps-1": ("./serve", "1"),
    }


@pytest.mark.parametrize(
    ("command", "named", "python"),
    [
        (("python", "train.py"), None, "/venv/bin/python"),
        (DEFAULT_COMMAND, None, "/launcher/bin/python"),
        (("python", "-m", "training"), None, "/launcher/bin/python"),
        (("python", "-m", "training"), "~/tf/bin/python", "~/tf/bin/python"),
        (("train.py",), "~/tf/bin/python", "~/tf/bin/python"),
    ],
)
def test_the_training_program_that_comes_along_runs_under_the_launchers_python_unless_another_is_named(
    command: tuple[str, ...], named: str | None, python: str
) -> None:
    context = CONTEXT._replace(training_python="/launcher/bin/python")

    assert python_of(command, replace(TWO, python=named), context) == python


@pytest.mark.parametrize(
    ("command", "interpreter"),
    [
        (("python", "train.py"), "/venv/bin/python"),
        (("/usr/bin/python3.9", "train.py"), "/usr/bin/python3.9"),
        (("./train.sh",), None),
    ],
)
def test_a_plan_tells_which_python_it_starts(command: tuple[str, ...], interpreter: str | None) -> None:
    assert planned(TWO, command=command)["worker-0"].interpreter == interpreter
