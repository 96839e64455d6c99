"""A run directory belongs to one living launcher, wherever the others are and whatever the clock says."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.launching import Launch, await_true, program

from launcher.errors import LaunchError
from launcher.run.request import Request
from launcher.run.resuming import left_workers
from launcher.run.resuming.resumption import resumed
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.hold import COLLECT, Hold

Start = Callable[..., Launch]
STAYS_AGAIN = '[ "$LAUNCH_ATTEMPT" = 0 ] || { echo on; exec sleep 1000; }'
NAMESPACES = ("unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")))
IN_A_CONTAINER = (*NAMESPACES, "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc", "--")
SOURCE = Path(__file__).with_name("no_locks.c")


@pytest.fixture
def elsewhere(need: Callable[..., None], tmp_path: Path) -> tuple[str, ...]:
    """The words in front of a command that runs it on what it takes for another machine."""
    need("unshare", "util-linux")
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("11111111-2222-4333-8444-555555555555\n")
    change = f"hostname gpu-login2 && mount --bind '{boot_id}' /proc/sys/kernel/random/boot_id && exec \"$@\""
    spaces = ("--uts", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc")
    words = (*NAMESPACES, *spaces, "--", "sh", "-ec", change, "sh")
    tried = subprocess.run([*words, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"needs the right to make namespaces and to mount: {tried.stderr.strip()}")
    return words


@pytest.fixture
def container(need: Callable[..., None]) -> tuple[str, ...]:
    """The words in front of a command that runs it in a PID namespace of its own."""
    need("unshare", "util-linux")
    tried = subprocess.run([*IN_A_CONTAINER, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"needs the right to make namespaces: {tried.stderr.strip()}")
    return IN_A_CONTAINER


@pytest.fixture
def no_locks(need: Callable[..., None], tmp_path: Path) -> dict[str, str]:
    """Variables with which a program finds no locks."""
    need("gcc", "gcc libc6-dev")
    library = tmp_path / "no_locks.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    return {"LD_PRELOAD": str(library)}


@contextlib.contextmanager
def running(launch: Start, **popen: object) -> Iterator[Launch]:
    """A run with one worker that stays; in the end the launcher has seen nothing of what others tried."""
    started = launch("--workers", "1", *program("stay", "die"), **popen)
    started.await_log(b"ready", "worker-0")
    await_true(lambda: (started.run_directory / "run.json").exists(), "its run.json")
    yield started
    assert started.process.poll() is None
    assert not (started.run_directory / "attempt-1").exists()
    started.signal(signal.SIGTERM)
    assert started.wait() == 143


def killed(launch: Start, **popen: object) -> Launch:
    """A run whose launcher was killed, and whose worker has gone."""
    started = launch("--workers", "1", "--", "sh", "-c", '[ "$LAUNCH_ATTEMPT" != 0 ] || sleep 1000', **popen)
    started.await_event("task_started")
    await_true(lambda: (started.run_directory / "run.json").exists(), "its run.json")
    started.process.kill()  # and in a PID namespace all that is in it
    started.wait()
    started.await_nothing_left()
    return started


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_of_several_that_resume_a_run_at_once_one_wins(launch: Start, no_locks: dict[str, str], locks: bool) -> None:
    first = launch("--workers", "1", "--", "sh", "-c", STAYS_AGAIN)
    assert first.succeeded()
    env = {} if locks else no_locks

    racing = [launch("--resume", first.run_directory, env=env) for _ in range(4)]

    first.await_log(b"on", "worker-0", attempt=1)
    await_true(lambda: sum(each.process.poll() is not None for each in racing) == 3, "the end of the others")
    (winner,) = [each for each in racing if each.process.poll() is None]
    for loser in racing:
        if loser is not winner:
            assert loser.wait() == 2
            assert f"still runs (launcher: process {winner.process.pid} on " in loser.stderr
    assert sorted(path.name for path in first.run_directory.glob("attempt-*")) == ["attempt-0", "attempt-1"]
    winner.signal(signal.SIGTERM)
    assert winner.wait() == 143


def test_who_has_a_run_is_told_with_process_host_time_and_remedy(launch: Start) -> None:
    with running(launch) as started:
        refused = launch("--resume", started.run_directory)

        assert refused.wait() == 2
        pid = started.process.pid
        assert f"still runs (launcher: process {pid} on {os.uname().nodename}, since 20" in refused.stderr
        assert f"stop it first (kill {pid}), or wait for its end" in refused.stderr


def test_of_a_suspended_launcher_it_is_told_how_it_ends(launch: Start) -> None:
    with running(launch) as started:
        pid = started.process.pid
        started.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        refused = launch("--resume", started.run_directory)

        assert refused.wait() == 2
        assert f"stop it first (kill {pid}; kill -CONT {pid}, for it is suspended), or wait" in refused.stderr
        started.signal(signal.SIGCONT)


def test_a_launcher_in_another_pid_namespace_is_seen(launch: Start, container: tuple[str, ...]) -> None:
    with running(launch) as started:
        refused = launch("--resume", started.run_directory, under=container)

        assert refused.wait() == 2
        assert f"still runs (launcher: process {started.process.pid} in another PID namespace" in refused.stderr


def test_a_launcher_that_was_killed_in_another_pid_namespace_has_gone(
    launch: Start, container: tuple[str, ...]
) -> None:
    first = killed(launch, under=container)

    assert launch("--resume", first.run_directory).succeeded()


def test_a_launcher_on_another_machine_is_seen(launch: Start, elsewhere: tuple[str, ...]) -> None:
    with running(launch) as started:
        refused = launch("--resume", started.run_directory, under=elsewhere)

        assert refused.wait() == 2
        here = f"process {started.process.pid} on {os.uname().nodename}, since "
        assert f"still runs (launcher: {here}" in refused.stderr
        assert "stop it there first" in refused.stderr


def test_a_launcher_that_was_killed_on_another_machine_has_gone(launch: Start, elsewhere: tuple[str, ...]) -> None:
    first = killed(launch, under=elsewhere)

    assert launch("--resume", first.run_directory).succeeded()


def test_without_locks_a_killed_launcher_of_another_machine_is_asked_about(
    launch: Start, elsewhere: tuple[str, ...], no_locks: dict[str, str]
) -> None:
    first = killed(launch, under=elsewhere, env=no_locks)

    refused = launch("--resume", first.run_directory, env=no_locks)
    assert refused.wait() == 2
    assert " on gpu-login2, since " in refused.stderr
    assert "still runs cannot be seen from here" in refused.stderr
    assert "if it has gone, add --take-over" in refused.stderr

    assert launch("--resume", first.run_directory, "--take-over", env=no_locks).succeeded()


def test_without_locks_a_killed_launcher_of_this_machine_has_gone(launch: Start, no_locks: dict[str, str]) -> None:
    first = killed(launch, env=no_locks)

    assert launch("--resume", first.run_directory, env=no_locks).succeeded()


def test_without_locks_taking_over_a_run_that_is_known_to_go_on_is_refused(
    launch: Start, no_locks: dict[str, str]
) -> None:
    with running(launch, env=no_locks) as started:
        for options in ((), ("--take-over",)):
            refused = launch("--resume", started.run_directory, *options, env=no_locks)
            assert refused.wait() == 2
            assert f"still runs (launcher: process {started.process.pid} on " in refused.stderr


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_a_step_of_the_clock_does_not_make_a_living_launcher_another_one(
    launch: Start, need: Callable[..., None], no_locks: dict[str, str], tmp_path: Path, locks: bool
) -> None:
    """When a clock is set, the kernel tells another time of its own start, from which those of processes count."""
    need("unshare", "util-linux")
    told = Path("/proc/stat").read_text()
    began = next(line for line in told.splitlines() if line.startswith("btime "))
    stepped = tmp_path / "stat"
    stepped.write_text(told.replace(began, f"btime {int(began.split()[1]) + 3600}"))
    under = (*NAMESPACES, "--mount", "--", "sh", "-ec", f"mount --bind '{stepped}' /proc/stat && exec \"$@\"", "sh")
    tried = subprocess.run([*under, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"needs the right to make namespaces and to mount: {tried.stderr.strip()}")

    with running(launch, env={} if locks else no_locks) as started:
        times = f"import psutil; print(psutil.Process({started.process.pid}).create_time())"
        before, after = (
            float(subprocess.run([*words, sys.executable, "-c", times], capture_output=True, check=True).stdout)
            for words in ((), under)
        )
        assert after - before > 3000

        refused = launch("--resume", started.run_directory, under=under, env={} if locks else no_locks)

        assert refused.wait() == 2
        assert f"still runs (launcher: process {started.process.pid} on " in refused.stderr


def test_no_process_of_a_run_but_the_launcher_has_the_lock(launch: Start) -> None:
    with running(launch) as started:
        lock = started.run_directory / "lock"
        having = [each.pid for each in started.alive() if str(lock) in {file.path for file in each.open_files()}]
        assert having == [started.process.pid]


def test_a_run_goes_on_right_after_a_kill_but_not_before_its_workers_have_gone(launch: Start, tmp_path: Path) -> None:
    """The first worker ignores SIGTERM, and its agent is slow to stop it."""
    report = f"kill -0 $(cat '{tmp_path}/pid') && echo together"
    again = f'[ "$LAUNCH_ATTEMPT" = 0 ] || {{ {report}; exit 0; }}'
    worker = f'{again}; trap "" TERM; echo $$ >"$0"; while :; do sleep 0.1; done'
    first = launch("--workers", "1", "--", "sh", "-c", worker, str(tmp_path / "pid"))
    await_true(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the worker")
    await_true(lambda: (first.run_directory / "run.json").exists(), "its run.json")
    stopping = [first.named("launch-agent"), first.named("launch-guard")]
    for process in stopping:
        process.suspend()
    first.process.kill()

    resumed = launch("--resume", first.run_directory)
    await_true((first.run_directory / "holder-2").exists, "the next launcher has the run")
    for process in stopping:
        process.resume()

    assert resumed.succeeded()
    assert b"together" not in first.log("worker-0", attempt=1)


def test_a_worker_that_nobody_stops_keeps_its_run_from_going_on(launch: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_workers, "PATIENCE", 0.0)
    first = launch("--workers", "1", *program("stay", "die"))
    first.await_log(b"ready", "worker-0")
    await_true(lambda: (first.run_directory / "run.json").exists(), "its run.json")
    agent, guard, worker = first.named("launch-agent"), first.named("launch-guard"), first.worker("worker-0")
    for process in (agent, guard):
        process.suspend()
    first.process.kill()

    first.process.wait()

    with (
        pytest.raises(LaunchError, match=rf"would write to its files: end them first \(kill -9 {worker.pid}\)"),
        resumed(Request(runs_dir=first.runs, resume=str(first.run_directory))),
    ):
        pass

    for process in (agent, guard):
        process.resume()
    first.await_nothing_left()
    assert launch("--resume", first.run_directory, "--", "true").succeeded()


def test_a_run_whose_files_are_being_brought_does_not_go_on(launch: Start, environment: dict[str, str]) -> None:
    first = launch("--workers", "1", "--", "true")
    assert first.succeeded()
    bringing = Hold(first.run_directory, COLLECT)
    try:
        refused = launch("--resume", first.run_directory)
        assert refused.wait() == 2
        assert f"`launch collect` (process {os.getpid()} on " in refused.stderr

        collected = collect(first.run_directory, environment)
        assert collected.returncode == 2
        assert f"`launch collect` (process {os.getpid()} on " in collected.stderr
    finally:
        bringing.release()
    assert collect(first.run_directory, environment).returncode == 0


def test_the_files_of_a_run_that_goes_on_can_be_brought(launch: Start, environment: dict[str, str]) -> None:
    with running(launch) as started:
        collected = collect(started.run_directory, environment)

        assert collected.returncode == 0
        assert "[launch] this run still goes on" in collected.stderr


def test_a_run_of_an_earlier_version_goes_on(launch: Start) -> None:
    first = launch("--workers", "1", "--", "true")
    assert first.succeeded()
    state = first.run_state | {"state": "running", "launcher": {"pid": first.process.pid, "created": 1795184553.25}}
    del state["inode"]
    RunDirectory(first.run_directory).run_file.write_text(json.dumps(state))

    resumed = launch("--resume", first.run_directory)

    assert resumed.succeeded()
    assert "had gone without an end" in resumed.stderr


def collect(run: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "launcher", "collect", str(run)]
    return subprocess.run(argv, env=environment, capture_output=True, text=True)
