"""The last lines name the culprit: worker, host, exit code or signal, the end of its log, where the rest is."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.launching import Launch, disk, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]

RECORDINGS = Path(__file__).resolve().parents[1] / "unit" / "failure_tails"
culprits = pytest.mark.parametrize("culprit", ["worker-0", "worker-1"])


def spoken(task: str) -> str:
    return task.replace("-", " ")


@culprits
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("3", "failed (exit code 3)"),
        ("255", "failed (exit code 255)"),
        ("raise", "failed (exit code 1): ValueError: labels out of range"),
        ("SIGKILL", "was killed by SIGKILL"),
        ("SIGSEGV", "was killed by SIGSEGV"),
        ("SIGABRT", "was killed by SIGABRT"),
    ],
)
def test_the_culprit_is_named(launch: Start, cluster: Cluster, culprit: str, how: str, said: str) -> None:
    started = launch(*cluster(), *program("fail", culprit, how))

    assert started.wait() == 1
    assert f"{spoken(culprit)} on localhost {said}" in started.last_words
    log = f"runs/{started.run_directory.name}/attempt-0/{culprit}.log"
    assert f"Its whole log: {log}" in started.last_words
    assert started.run_state["result"]["root_cause"]["task"] == culprit


@culprits
def test_the_culprits_own_traceback_is_shown_with_its_place(launch: Start, cluster: Cluster, culprit: str) -> None:
    started = launch(*cluster(), *program("fail", culprit, "raise"))

    assert started.wait() == 1
    assert re.search(r"labels out of range \(.*fail\.py:\d+\)", started.last_words)
    assert 'raise ValueError("labels out of range")' in started.last_words


def test_a_worker_that_fills_the_disk_of_its_log_is_told_with_the_remedy(launch: Start, tmp_path: Path) -> None:
    runs = tmp_path / "small"
    runs.mkdir()
    with disk(runs, megabytes=1):
        started = launch(
            "--run-dir", runs, "--workers", "1", "--", "sh", "-c", "head -c 2M /dev/zero | tr '\\0' '\\n'; exit 3"
        )

        assert started.wait() == 1
        assert "worker 0 on localhost failed (exit code 3)" in started.last_words
        assert "make room on localhost: the disk of its log is full" in started.last_words


@culprits
def test_the_last_lines_of_a_culprit_without_a_traceback_are_shown(
    launch: Start, cluster: Cluster, culprit: str
) -> None:
    started = launch(*cluster(), *program("fail", culprit, "3"))

    assert started.wait() == 1
    assert "giving up with 3" in started.last_words


@pytest.mark.parametrize("recording", ["value_error", "chief_value_error", "sigkill", "chief_sigkill"])
@pytest.mark.parametrize("order", [("worker-0", "worker-1"), ("worker-1", "worker-0")], ids=["0 first", "1 first"])
def test_a_peers_complaint_does_not_win_over_the_culprit(
    launch: Start, cluster: Cluster, recording: str, order: tuple[str, ...]
) -> None:
    """Real words of TensorFlow, whoever arrives first."""
    culprit = "worker 0" if recording.startswith("chief") else "worker 1"
    said = "was killed by SIGKILL" if recording.endswith("kill") else "failed (exit code 1): ValueError: labels out of"

    command = program("replay", str(RECORDINGS / recording), *order)

    started = launch(*cluster(timeouts={"failure_grace": "10s"}), *command)

    assert started.wait() == 1
    assert f"{culprit} on localhost {said}" in started.last_words


def test_a_worker_that_leaves_early_is_named_when_the_others_fail_without_it(launch: Start, cluster: Cluster) -> None:
    command = program("replay", str(RECORDINGS / "exit_0"), "worker-1", "worker-0")

    started = launch(*cluster(timeouts={"failure_grace": "10s"}), *command)

    assert started.wait() == 1
    assert "worker 1 on localhost ended too early (exit code 0)" in started.last_words


def test_a_failure_stops_workers_that_ignore_it(launch: Start, cluster: Cluster) -> None:
    script = """trap '' TERM INT; case "$TF_CONFIG" in *'"index": 1}'*) exit 3;; esac; while :; do sleep 0.1; done"""
    started = launch(*cluster(3, timeouts={"failure_grace": "100ms"}), "--", "sh", "-c", script)

    assert started.wait() == 1
    assert "worker 1 on localhost failed (exit code 3)" in started.last_words


def test_an_exception_that_quotes_a_large_array_is_told_in_its_own_words(launch: Start) -> None:
    large = "numbers = '\\n'.join(['  [0.125 0.25 0.5]'] * 50_000); raise ValueError('bad array: [[1 2]\\n' + numbers)"
    started = launch("--workers", "1", "--", sys.executable, "-c", large)

    assert started.wait() == 1
    lines = started.last_words.splitlines()
    assert lines[0].startswith("[launch] worker 0 on localhost failed (exit code 1): ValueError: bad array: [[1 2]")
    assert len(lines[0]) < 200
    assert "  [lines of numbers left out]" in started.last_words, "how many is known to the worker alone"
    assert len(lines) < 10


def test_a_traceback_of_long_ago_is_not_what_ended_a_program(launch: Start) -> None:
    goes_on = "import traceback\ntry: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc()\n"
    goes_on += "print('step done\\n' * 10_000)\nraise SystemExit(1)"
    started = launch("--workers", "1", "--", sys.executable, "-c", goes_on)

    assert started.wait() == 1
    assert "ZeroDivisionError" not in started.last_words


def test_of_a_killed_worker_the_last_step_is_told(launch: Start, tmp_path: Path) -> None:
    """And no log that holds nothing."""
    script = """echo '{"step": 812}' >> "$LAUNCH_PROGRESS"; until [ -e go ]; do sleep 0.01; done; kill -9 $$"""
    started = launch("--workers", "1", "--", "sh", "-c", script)
    started.await_event("progress_made")
    (tmp_path / "go").touch()

    assert started.wait() == 1
    first, second, *rest = started.last_words.splitlines()
    assert first.startswith("[launch] worker 0 on localhost was killed by SIGKILL")
    assert re.fullmatch(r"\[launch\] Its last step was 812, \S+ \S+ before its end\.", second)
    assert rest == []


# ---- what is no failure
def test_a_worker_may_end_well_before_the_others(launch: Start, tmp_path: Path) -> None:
    script = """case "$TF_CONFIG" in
        *'"index": 1}'*) touch gone;;
        *) until [ -e gone ]; do sleep 0.01; done; echo on;;
    esac"""
    started = launch("--workers", "2", "--", "sh", "-c", script)

    assert started.succeeded()
    assert started.stdout == "[worker 0] on\n"


def test_services_are_stopped_once_the_training_is_done(launch: Start, cluster: Cluster) -> None:
    tasks = {"chief": 1, "worker": 1, "ps": 2, "evaluator": 1}
    script = """case "$TF_CONFIG" in *'"type": "ps"'*|*'"type": "evaluator"'*) exec sleep 1000;; esac; echo trained"""

    started = launch(*cluster(tasks=tasks), "--", "sh", "-c", script)

    assert started.succeeded()
    assert started.stdout.count("trained") == len(started.stdout.splitlines())
    assert [started.log(task) for task in ("chief-0", "worker-0", "ps-0")] == [b"trained\n", b"trained\n", b""]
    assert "5 tasks (1 chief, 1 worker, 2 ps, 1 evaluator) on localhost" in started.stderr
    assert "done in" in started.last_words


def test_services_that_refuse_to_end_are_killed_and_the_run_is_a_success(launch: Start, cluster: Cluster) -> None:
    script = """case "$TF_CONFIG" in *'"type": "ps"'*) trap '' TERM; while :; do sleep 0.1; done;; esac"""

    started = launch(*cluster(tasks={"worker": 1, "ps": 1}), "--", "sh", "-c", script)

    assert started.succeeded()


def test_a_failed_parameter_server_is_a_failure(launch: Start, cluster: Cluster) -> None:
    script = """case "$TF_CONFIG" in *'"type": "ps"'*) exit 4;; esac; exec sleep 1000"""

    started = launch(*cluster(tasks={"worker": 1, "ps": 1}), "--", "sh", "-c", script)

    assert started.wait() == 1
    assert "ps 0 on localhost failed (exit code 4)" in started.last_words


def test_a_failed_evaluator_is_a_failure_once_the_training_is_done(launch: Start, cluster: Cluster) -> None:
    script = """case "$TF_CONFIG" in *'"type": "evaluator"'*) echo $$ > pid; mv pid evaluator; exit 4;; esac
        until [ -e evaluator ]; do sleep 0.01; done
        while kill -0 $(cat evaluator) 2>/dev/null; do sleep 0.01; done
        echo trained"""

    started = launch(*cluster(tasks={"worker": 1, "evaluator": 1}), "--", "sh", "-c", script)

    assert started.wait() == 1
    assert started.log("worker-0") == b"trained\n"
    assert "evaluator 0 on localhost failed (exit code 4)" in started.last_words


def test_a_peers_complaint_after_the_chiefs_success_is_no_failure(launch: Start, cluster: Cluster) -> None:
    """Real words: the worker whose peer ended well. Here that peer is the chief."""
    complaint = RECORDINGS / "exit_0" / "worker-0.log"
    script = f"""case "$TF_CONFIG" in *'"type": "chief"'*) echo $$ > pid; mv pid chief; exit 0;; esac
        until [ -e chief ]; do sleep 0.01; done
        while kill -0 $(cat chief) 2>/dev/null; do sleep 0.01; done
        cat '{complaint}'; exit 1"""

    started = launch(*cluster(tasks={"chief": 1, "worker": 1}), "--", "sh", "-c", script)

    assert started.succeeded()


def test_a_stall_names_no_worker_for_each_may_only_wait(launch: Start) -> None:
    started = launch("--workers", "2", "--stall", "500ms", "--json", *program("steps"))

    assert started.wait() == 1
    assert "the run stalled: no worker made a step for 0.5 s (timeouts.stall); the last was step" in started.stderr
    assert "which one holds up the others is not known" in started.stderr
    cause = json.loads(started.stdout.splitlines()[-1])["root_cause"]
    assert (cause["kind"], cause["host"], cause["task"]) == ("stalled", None, None)


# ---- a log that means harm
BANNER = f"""\
Traceback (most recent call last):
{"#" * 30}
  File "a.py", line 1, in <module>
{"#" * 30}
    foo()
ValueError: {"#" * 60} see above
"""


def test_a_traceback_between_banners_is_understood(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "banner").write_text(BANNER)
    started = launch("--workers", "1", "--", "sh", "-c", "cat banner; exit 1")

    assert started.wait() == 1
    assert f"ValueError: {'#' * 60} see above" in started.stderr


def test_a_run_with_such_a_log_can_be_interrupted(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "banner").write_text(BANNER)
    started = launch("--workers", "1", "--", "sh", "-c", "cat banner; exec sleep 1000")
    started.await_log(b"see above", "worker-0")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
