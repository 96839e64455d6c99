"""A failed gang is started again as often as the user allows, and not where it cannot help."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from support.launching import ROOT, Launch, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
QUICK = {"backoff": "10ms"}

ONCE = 'echo "attempt $LAUNCH_ATTEMPT in $LAUNCH_OUTPUT_DIR"; [ "$LAUNCH_ATTEMPT" != 0 ] || exit 3'


def attempts(started: Launch) -> list[str]:
    return sorted(path.name for path in started.run_directory.glob("attempt-*"))


def test_a_run_that_succeeds_at_the_second_attempt_is_a_success(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(restart={"max_restarts": 2, **QUICK}), "--", "sh", "-c", ONCE)

    assert started.succeeded()
    assert attempts(started) == ["attempt-0", "attempt-1"]
    assert "on localhost failed (exit code 3)" in started.stderr
    assert "restarting all workers in 0.01 s (restart 1 of 2)" in started.stderr
    assert "after 1 restart" in started.last_words
    assert started.run_state["result"]["attempts"] == 2


def test_the_command_line_allows_restarts_too(launch: Start) -> None:
    started = launch("--workers", "1", "--max-restarts", "1", "--", "sh", "-c", ONCE)

    assert started.succeeded()
    assert attempts(started) == ["attempt-0", "attempt-1"]


def test_every_attempt_keeps_its_logs_and_all_share_the_output_directory(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(restart={"max_restarts": 1, **QUICK}), "--", "sh", "-c", ONCE)

    assert started.succeeded()
    output = started.run_directory / "chief"
    for n in (0, 1):
        for task in ("worker-0", "worker-1"):
            assert started.log(task, attempt=n).decode() == f"attempt {n} in {output}\n"
        plan = json.loads((started.run_directory / f"attempt-{n}" / "plan.json").read_bytes())
        assert {task["env"]["LAUNCH_ATTEMPT"] for task in plan["tasks"]} == {str(n)}


def test_what_an_attempt_put_out_is_there_for_the_next(launch: Start, cluster: Cluster) -> None:
    script = 'cd "$LAUNCH_OUTPUT_DIR"; if [ -e state ]; then cat state; else echo step 7 > state; exit 1; fi'
    started = launch(*cluster(1, restart={"max_restarts": 1, **QUICK}), "--", "sh", "-c", script)

    assert started.stdout == "[worker 0] step 7\n"


def test_every_worker_is_started_again_not_only_the_one_that_failed(launch: Start, cluster: Cluster) -> None:
    script = """[ "$LAUNCH_ATTEMPT" = 1 ] && exit 0
        case "$TF_CONFIG" in *'"index": 1}'*) exit 3;; esac
        exec sleep 1000"""
    started = launch(*cluster(3, restart={"max_restarts": 1, **QUICK}), "--", "sh", "-c", script)

    assert started.succeeded()
    assert sum(each["type"] == "task_started" for each in started.events) == 6


def test_no_stray_of_a_failed_attempt_meets_the_next_one(launch: Start, cluster: Cluster) -> None:
    alive = 'for f in stray-*; do [ -e "$f" ] && kill -0 $(cat $f) 2>/dev/null && echo still there; done;'
    script = f"""{alive} [ "$LAUNCH_ATTEMPT" = 1 ] && exit 0
        setsid nohup sh -c 'trap "" TERM; echo $$ > stray-$$; while :; do sleep 0.1; done' &
        until ls stray-* >/dev/null 2>&1; do sleep 0.01; done; exit 3"""
    started = launch(*cluster(1, restart={"max_restarts": 1, **QUICK}), "--", "sh", "-c", script)

    assert started.succeeded()
    assert started.log("worker-0", attempt=1) == b""


def test_bad_usage_is_not_tried_again(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(restart={"max_restarts": 3, **QUICK}), "--", "sh", "-c", "exit 2")

    assert started.wait() == 1
    assert attempts(started) == ["attempt-0"]
    assert "no restart: exit code 2 means bad usage" in started.stderr


def test_workers_that_do_not_find_the_same_checkpoint_are_not_tried_again(launch: Start, cluster: Cluster) -> None:
    """Said by the training program; `test_training_runs.py` shows that its words are known."""
    said = "error: the workers do not find the same checkpoint (step found by replica 0: 580, 1: no checkpoint)"
    started = launch(*cluster(restart={"max_restarts": 3, **QUICK}), "--", "sh", "-c", f"echo '{said}'; exit 1")

    assert started.wait() == 1
    assert attempts(started) == ["attempt-0"]
    assert "no restart: the workers would not find the same checkpoint in the next attempt" in started.stderr


def test_the_same_failure_is_not_tried_a_third_time_without_a_new_checkpoint(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(1, restart={"max_restarts": 5, **QUICK}), *program("fail", "worker-0", "raise"))

    assert started.wait() == 1
    assert attempts(started) == ["attempt-0", "attempt-1"]
    assert "no further restart: the same failure came twice" in started.stderr


def test_the_same_failure_is_tried_again_after_a_new_checkpoint(launch: Start, cluster: Cluster) -> None:
    script = """mkdir -p "$LAUNCH_OUTPUT_DIR/checkpoints"; cd "$LAUNCH_OUTPUT_DIR/checkpoints"
        touch "ckpt-$LAUNCH_ATTEMPT.index"; exit 3"""
    started = launch(*cluster(1, restart={"max_restarts": 3, **QUICK}), "--", "sh", "-c", script)

    assert started.wait() == 1
    assert attempts(started) == ["attempt-0", "attempt-1", "attempt-2", "attempt-3"]
    assert "no further restart: max_restarts is 3" in started.stderr


LATE_LOSS = """
import sys
if "launcher" in sys.orig_argv:
    from launcher.hosts.all_hosts import Hosts
    def reconnect_lost(self, observe, begin=Hosts.reconnect_lost):
        self.give_up("localhost", "it went at the last moment")
        begin(self, observe)
    Hosts.reconnect_lost = reconnect_lost
"""


def test_a_host_that_goes_just_before_it_is_asked_for_the_restart_is_told_of(
    launch: Start, cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(LATE_LOSS)
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    started = launch(*cluster(1, restart={"max_restarts": 2, **QUICK}), "--", "sh", "-c", ONCE, env=env)

    assert started.succeeded()
    assert "localhost was lost: it went at the last moment; it is called again for the restart" in started.stderr
    assert attempts(started) == ["attempt-0", "attempt-1"]


def test_without_leave_there_is_no_restart(launch: Start) -> None:
    started = launch("--workers", "1", "--", "sh", "-c", ONCE)

    assert started.wait() == 1
    assert attempts(started) == ["attempt-0"]
