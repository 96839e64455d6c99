"""Programs with parameter servers, as their authors write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from support.launching import Launch, cluster_file

WILD = Path(__file__).resolve().parent / "scripts" / "wild"
LOOP = ("--", "python", str(WILD / "parameter_server_loop.py"))


def cluster(place: Path, max_restarts: int = 0, env: dict[str, str] | None = None, **tasks: int) -> tuple[str, str]:
    """A cluster file of these tasks on this machine."""
    hosts = [{"host": "localhost", "tasks": tasks, "env": env or {}}]
    return cluster_file(place, hosts, {"start": "120s"}, {"restart": {"max_restarts": max_restarts}})


def test_a_coordinators_loop_trains_on_though_a_worker_is_killed_again_and_again(
    launched: Callable[..., Launch], tmp_path: Path
) -> None:
    enough = tmp_path / "enough"

    def kill_worker_twice(launch: Launch) -> None:
        launch.await_log(b"round 1", "chief-0")
        launch.worker("worker-1").kill()
        launch.await_event("task_listening", count=5)  # four servers, and that of the worker that came back
        launch.worker("worker-1").kill()
        launch.await_event("task_exited", count=2)
        enough.touch()

    file = cluster(tmp_path, max_restarts=1, chief=1, worker=2, ps=1)
    launch = launched(*file, *LOOP, "--until", str(enough), meanwhile=kill_worker_twice, kills=True, fresh=True)

    assert launch.succeeded()
    assert re.search(r"trained: loss 0\.0\d+ after \d+ steps", launch.stdout)
    lost = "worker 1 on localhost was killed by SIGKILL"
    assert launch.stderr.count(lost) == 2
    assert "the chief goes on; worker 1 is started again in 1 s (restart 1 of 1)" in launch.stderr
    assert "the chief goes on without it" in launch.stderr
    assert re.search(r"done in .* s, after 1 restart", launch.stderr)
    assert "stopping" not in launch.stderr
    assert launch.log("worker-1").count(b"worker serves") == 2


def test_a_parameter_server_that_is_killed_is_the_cause_and_not_the_chief_that_complains(
    launched: Callable[..., Launch], tmp_path: Path
) -> None:
    def kill_server(launch: Launch) -> None:
        launch.await_log(b"round 1", "chief-0")
        launch.worker("ps-0").kill()

    file = cluster(tmp_path, chief=1, worker=1, ps=1)
    launch = launched(*file, *LOOP, "--until", str(tmp_path / "never"), meanwhile=kill_server)

    assert launch.wait() == 1
    assert "ps 0 on localhost was killed by SIGKILL" in launch.last_words
    assert launch.run_state["result"]["root_cause"]["task"] == "ps-0"


def test_fit_of_keras_2_ends_once_its_evaluator_has_seen_the_last_checkpoint(
    launched: Callable[..., Launch], tmp_path: Path
) -> None:
    file = cluster(tmp_path, env={"TF_USE_LEGACY_KERAS": "1"}, chief=1, worker=1, ps=1, evaluator=1)
    program = ("--", "python", str(WILD / "parameter_server_fit.py"))
    launch = launched(*file, *program, env={"TF_CPP_MIN_LOG_LEVEL": "0"}, kills=True, fresh=True)

    assert launch.succeeded()
    assert "trained 3 epochs" in launch.stdout
    assert b"evaluated 30 steps" in launch.log("evaluator-0")
    assert b"device_count {" in launch.log("ps-0")
    assert "device_count {" not in launch.stdout
    assert "stopping" not in launch.stderr


def test_a_cluster_inside_one_process_trains(launched: Callable[..., Launch]) -> None:
    launch = launched("--workers", "1", "--", "python", WILD / "parameter_servers_in_process.py")

    assert launch.succeeded()
    assert "3 servers in one process counted 40" in launch.stdout
