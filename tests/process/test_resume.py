"""`--resume` goes on in the directory of an earlier run."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.launching import Launch, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
ONCE = 'echo "attempt $LAUNCH_ATTEMPT in $LAUNCH_OUTPUT_DIR"; [ "$LAUNCH_ATTEMPT" != 0 ] || exit 3'


def test_a_resumed_run_is_the_next_attempt_in_the_same_directories(launch: Start) -> None:
    failed = launch("--workers", "1", "--", "sh", "-c", ONCE)
    assert failed.wait() == 1
    directory = failed.run_directory

    resumed = launch("--workers", "1", "--resume", directory, "--", "sh", "-c", ONCE)

    assert resumed.succeeded()
    for attempt in (0, 1):
        assert failed.log("worker-0", attempt=attempt).decode() == f"attempt {attempt} in {directory / 'chief'}\n"
    assert failed.run_state["state"] == "done"


def test_latest_means_the_run_that_was_started_last(launch: Start) -> None:
    first = launch("--workers", "1", "--", "true")
    assert first.succeeded()

    assert launch("--workers", "1", "--run-dir", first.runs, "--resume", "latest", "--", "true").succeeded()

    assert sorted(path.name for path in first.run_directory.glob("attempt-*")) == ["attempt-0", "attempt-1"]


def test_a_run_that_still_runs_cannot_be_resumed(launch: Start) -> None:
    running = launch("--workers", "1", *program("stay", "die"))
    running.await_event("task_started")
    running.await_log(b"ready", "worker-0")

    refused = launch("--workers", "1", "--resume", running.run_directory, "--", "true")

    assert refused.wait() == 2
    assert f"still runs (launcher: process {running.process.pid} on " in refused.stderr
    running.signal(signal.SIGTERM)
    assert running.wait() == 143


def test_an_unknown_run_is_told_with_the_nearest(launch: Start) -> None:
    first = launch("--workers", "1", "--", "true")
    assert first.succeeded()

    refused = launch("--workers", "1", "--run-dir", first.runs, "--resume", "local", "--", "true")

    assert refused.wait() == 2
    assert "neither the name of a run" in refused.stderr
    assert f"Did you mean {first.run_directory.name}?" in refused.stderr


# ---- alone
STOPPED_ONCE = 'echo "$LAUNCH_ATTEMPT $SETTING $PWD $*"; [ "$LAUNCH_ATTEMPT" != 0 ] || exec sleep 1000'


def stopped(started: Launch, *tasks: str) -> Launch:
    """The same, once its workers have written something and Ctrl-C has ended it."""
    started.await_log(b"\n", *tasks)
    started.signal(signal.SIGINT)
    assert started.wait() == 130
    return started


def test_a_run_that_was_stopped_goes_on_as_it_was_begun(launch: Start, tmp_path: Path) -> None:
    options = "--workers", "2", "--env", "SETTING=as before"
    command = "--", "sh", "-c", STOPPED_ONCE, "it", "a word", "{rank}"
    first = stopped(launch(*options, *command), "worker-0", "worker-1")
    assert first.stderr.splitlines()[-1] == (
        f"[launch] go on with: {sys.executable} -m launcher --resume {first.run_directory.name}"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    resumed = launch("--resume", first.run_directory, cwd=elsewhere)

    assert resumed.succeeded()
    assert first.log("worker-1", attempt=1).decode() == f"1 as before {tmp_path} a word 1\n"
    words = shlex.join([*options, *command])
    assert f"[launch] going on with {first.run_directory.name} as it was begun: {words}\n" in resumed.stderr
    assert f"[launch] paths begin at {tmp_path}, as before\n" in resumed.stderr


def test_a_run_on_listed_hosts_goes_on_there(launch: Start) -> None:
    first = stopped(launch("-H", "localhost:2", "--", "sh", "-c", STOPPED_ONCE), "worker-0", "worker-1")

    resumed = launch("--resume", first.run_directory)

    assert resumed.succeeded()
    assert first.log("worker-1", attempt=1).startswith(b"1 ")
    assert f"going on with {first.run_directory.name} as it was begun: --hosts localhost:2 -- sh -c " in resumed.stderr


def test_a_dry_run_shows_the_attempt_that_would_come_next(launch: Start) -> None:
    first = launch("--workers", "1", "--", "true")
    assert first.succeeded()

    shown = launch("--resume", first.run_directory, "--dry-run")

    assert shown.succeeded()
    assert f"LAUNCH_OUTPUT_DIR={first.run_directory}/chief\n" in shown.stdout
    assert "LAUNCH_ATTEMPT=1\n" in shown.stdout


def test_what_is_given_beside_it_wins_and_is_told(launch: Start) -> None:
    first = stopped(launch("--workers", "2", "--", "sh", "-c", STOPPED_ONCE), "worker-0", "worker-1")

    resumed = launch("--run-dir", first.runs, "--resume", "latest", "--workers", "1", "--env", "SETTING=new")

    assert resumed.succeeded()
    assert first.log("worker-0", attempt=1).startswith(b"1 new ")
    assert first.log("worker-1", attempt=1) == b""
    assert ": --workers 1 --env SETTING=new -- sh -c " in resumed.stderr
    assert "(before: --workers 2 -- sh -c " in resumed.stderr


def test_the_cluster_file_of_its_beginning_is_used_though_it_has_changed(launch: Start, cluster: Cluster) -> None:
    options = cluster(workers=2, command=["sh", "-c", STOPPED_ONCE], env={"SETTING": "old"})
    first = stopped(launch(*options), "worker-0", "worker-1")
    Path(options[1]).write_text("hosts: [this is no cluster file")

    resumed = launch("--resume", first.run_directory)

    assert resumed.succeeded()
    assert first.log("worker-1", attempt=1).startswith(b"1 old ")
    assert "cluster.yaml has changed or gone since: the run's own copy, " in resumed.stderr

    again = launch("--resume", first.run_directory)  # the copy of a copy

    assert again.succeeded()
    assert first.log("worker-1", attempt=2).startswith(b"2 old ")


def test_a_cluster_file_that_is_named_again_is_used_as_it_is_now(launch: Start, cluster: Cluster) -> None:
    first = stopped(launch(*cluster(workers=2, command=["sh", "-c", STOPPED_ONCE])), "worker-0", "worker-1")

    resumed = launch(*cluster(workers=1, command=["sh", "-c", STOPPED_ONCE]), "--resume", first.run_directory)

    assert resumed.succeeded()
    assert first.log("worker-1", attempt=1) == b""
    assert "cluster.yaml has changed since, and is used as it is now\n" in resumed.stderr


def test_secrets_of_a_cluster_file_are_used_as_long_as_it_is_the_same(launch: Start, cluster: Cluster) -> None:
    command = ["sh", "-c", f'echo "$MY_TOKEN"; {STOPPED_ONCE}']
    first = stopped(launch(*cluster(workers=1, command=command, env={"MY_TOKEN": "hunter2"})), "worker-0")

    assert launch("--resume", first.run_directory).succeeded()
    assert first.log("worker-0", attempt=1).startswith(b"hunter2\n")

    cluster(workers=1, command=command, env={"MY_TOKEN": "hunter2", "MORE": "x"})
    refused = launch("--resume", first.run_directory)

    assert refused.wait() == 2
    assert "secrets are not written down: add --cluster FILE" in refused.stderr
    assert not (first.run_directory / "attempt-2").exists()


def test_a_secret_of_the_command_line_is_asked_for_again(launch: Start) -> None:
    command = "--", "sh", "-c", 'echo "$MY_TOKEN"'
    first = launch("--workers", "1", "--env", "MY_TOKEN=hunter2", *command)
    assert first.succeeded()

    refused = launch("--resume", first.run_directory)
    assert refused.wait() == 2
    assert "--env MY_TOKEN: a secret, which is not written down" in refused.stderr

    assert launch("--resume", first.run_directory, env={"MY_TOKEN": "hunter3"}).succeeded()
    assert first.log("worker-0", attempt=1) == b"hunter3\n"


def test_a_command_with_a_secret_has_to_be_said_again(launch: Start) -> None:
    started = launch("--workers", "1", "--", "sh", "-c", "exit $1", "sh", "--password", "hunter2")
    assert started.wait() != 0

    refused = launch("--run-dir", started.runs, "--resume", "latest")

    assert refused.wait() == 2
    assert "has a secret, which is not written down" in refused.stderr
    assert "--password '<redacted>'" in refused.stderr
    assert not (started.run_directory / "attempt-1").exists()
    assert launch("--run-dir", started.runs, "--resume", "latest", "--", "true").succeeded()


def test_a_secret_in_the_command_of_the_cluster_file_is_used_as_long_as_it_is_the_same(
    launch: Start, cluster: Cluster
) -> None:
    options = cluster(command=["sh", "-c", 'echo "got $2"', "sh", "--password", "hunter2"])
    started = launch(*options)
    assert started.succeeded()

    resumed = launch("--run-dir", started.runs, "--resume", "latest")

    assert resumed.succeeded()
    assert started.log("worker-0", attempt=1) == b"got hunter2\n"
    cluster(command=["true"])
    refused = launch("--run-dir", started.runs, "--resume", "latest")
    assert refused.wait() == 2
    assert "add --cluster FILE" in refused.stderr


def test_a_run_whose_launcher_was_killed_is_called_lost(launch: Start, environment: dict[str, str]) -> None:
    killed = launch("--workers", "1", "--", "sh", "-c", STOPPED_ONCE)
    killed.await_event("task_started")
    killed.await_log(b"\n", "worker-0")
    killed.process.kill()
    killed.wait()
    killed.await_nothing_left()
    assert killed.run_state["state"] == "running"

    argv = [sys.executable, "-m", "launcher", "collect", str(killed.run_directory)]
    collected = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    resumed = launch("--resume", killed.run_directory)

    assert resumed.succeeded()
    for said in (collected.stderr, resumed.stderr):
        assert "has gone without an end: killed, or the machine went down" in said.replace("had gone", "has gone")
    assert killed.run_state["state"] == "done"


def test_a_failure_without_a_checkpoint_says_nothing_of_going_on(launch: Start) -> None:
    failed = launch("--workers", "1", "--", "false")

    assert failed.wait() == 1
    assert "go on with" not in failed.stderr


def test_a_run_that_failed_and_has_a_checkpoint_says_how_to_go_on(launch: Start) -> None:
    saving = 'cd "$LAUNCH_OUTPUT_DIR" && touch ckpt-7.index; exit 3'

    failed = launch("--workers", "1", "--", "sh", "-c", saving)

    assert failed.wait() == 1
    assert failed.stderr.splitlines()[-1].endswith(f" --resume {failed.run_directory.name}")


def test_the_program_stays_that_of_the_cluster_file_where_only_the_number_of_workers_is_given(
    launch: Start, cluster: Cluster
) -> None:
    first = stopped(launch(*cluster(workers=2, command=["sh", "-c", STOPPED_ONCE])), "worker-0", "worker-1")

    assert launch("--resume", first.run_directory, "--workers", "1").succeeded()
    assert first.log("worker-0", attempt=1).startswith(b"1 ")


def test_a_quiet_console_shows_restarts(launch: Start) -> None:
    started = launch("--quiet", "--workers", "1", "--max-restarts", "1", "--", "sh", "-c", ONCE)

    assert started.succeeded()
    assert "restarting all workers in 1 s (restart 1 of 1)" in started.stderr
