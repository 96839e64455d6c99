"""`--resume` goes on in the directory of an earlier run."""

from __future__ import annotations

import signal
from collections.abc import Callable

from launching import Launch, program

Start = Callable[..., Launch]
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
    assert f"still runs (launcher: process {running.process.pid})" in refused.stderr
    running.signal(signal.SIGTERM)
    assert running.wait() == 143


def test_an_unknown_run_is_told_with_the_nearest(launch: Start) -> None:
    first = launch("--workers", "1", "--", "true")
    assert first.succeeded()

    refused = launch("--workers", "1", "--run-dir", first.runs, "--resume", "local", "--", "true")

    assert refused.wait() == 2
    assert "neither the name of a run" in refused.stderr
    assert f"Did you mean {first.run_directory.name}?" in refused.stderr
