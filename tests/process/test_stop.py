"""Ctrl-C and its kin: everybody is told once, may save, and is gone in the end."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest
from rig.processes import name_of
from support.launching import PATIENCE, SCRIPT, Launch, await_true, program, signals_of

from launcher.on_host.agent.loop import STOP_REQUEST

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]


def lines(started: Launch, task: str = "worker-0") -> list[str]:
    return started.log(task).decode().splitlines()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_exit_code_tells_the_signal(launch: Start, number: int, code: int) -> None:
    started = launch("--workers", "2", *program("stay", "die"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(number)

    assert started.wait() == code
    assert f"ended by {signal.Signals(number).name}" in started.last_words
    assert started.run_state["state"] == "stopped"
    assert started.run_state["result"]["exit_code"] == code


@pytest.mark.parametrize(
    ("number", "passed_on"),
    [(signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGTERM")],
)
def test_every_worker_gets_the_signal_once_and_may_save(
    launch: Start, cluster: Cluster, number: int, passed_on: str
) -> None:
    started = launch(*cluster(timeouts={"failure_grace": "10s"}), *program("stay", "save"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(number)
    started.wait()

    for task in ("worker-0", "worker-1"):
        assert lines(started, task) == ["ready", f"got {passed_on}", "saved"]


def test_a_stop_says_what_happens_and_how_long_it_may_take(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(timeouts={"grace": "7s", "failure_grace": "1s"}), *program("stay", "die"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert "SIGINT: stopping 2 workers by SIGINT; SIGKILL follows after 7 s, or 1 s after the first" in started.stderr
    assert "Ctrl-C again kills at once" in started.stderr


def test_the_children_of_a_worker_get_the_signal_too(launch: Start, cluster: Cluster) -> None:
    """A shell waits for its child before it acts on a signal itself: only the child can end it."""
    shell = 'trap "echo shell" INT; "$@"; echo after'
    started = launch(*cluster(1), "--", "sh", "-c", shell, "sh", *program("stay", "save")[1:])
    started.await_log(b"ready", "worker-0")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert sorted(lines(started)) == ["after", "got SIGINT", "ready", "saved", "shell"]


def test_a_worker_that_ignores_the_signal_is_killed_after_the_grace(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(timeouts={"grace": "200ms"}), *program("stay", "ignore"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    for task in ("worker-0", "worker-1"):
        assert lines(started, task) == ["ready", "got SIGINT"]
    ends = [each["signal"] for each in started.events if each["type"] == "task_exited"]
    assert ends == [signal.SIGKILL, signal.SIGKILL]


def test_the_long_grace_is_over_once_a_worker_has_gone(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(timeouts={"grace": "10m", "failure_grace": "10ms"}), *program("stay", "die", "ignore"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(signal.SIGTERM)

    assert started.wait() == 143
    assert lines(started, "worker-1") == ["ready", "got SIGTERM"]


@pytest.mark.parametrize(("first", "second"), [(2, 2), (15, 2), (2, 15), (1, 1)])
def test_a_second_signal_kills_at_once(launch: Start, cluster: Cluster, first: int, second: int) -> None:
    started = launch(*cluster(timeouts={"grace": "10m"}), *program("stay", "ignore"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(first)
    started.await_log(b"got", "worker-0", "worker-1")
    started.signal(second)

    assert started.wait() == 128 + first
    assert f"{signal.Signals(second).name} again: killing 2 workers" in started.stderr


def test_a_stopped_worker_is_ended_too(launch: Start) -> None:
    started = launch("--workers", "2", *program("stay", "die"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.worker("worker-1").suspend()
    started.signal(signal.SIGTERM)

    assert started.wait() == 143


def test_ctrl_z_does_nothing(launch: Start) -> None:
    started = launch("--workers", "1", *program("stay", "die"))
    started.await_log(b"ready", "worker-0")
    started.signal(signal.SIGTSTP)
    started.signal(signal.SIGTERM)

    assert started.wait() == 143


# ---- at any moment
def test_a_signal_before_any_worker_has_started_starts_none_or_ends_it(launch: Start) -> None:
    """As soon as the agent runs; the launcher may be anywhere between its greeting and the first worker."""
    started = launch("--workers", "2", *program("stay", "die"))
    await_true(lambda: any(name_of(each) in {"launch-guard", "launch-agent"} for each in started.alive()), "an agent")
    started.signal(signal.SIGINT)

    assert started.wait() == 130


@pytest.mark.parametrize("faults", range(500, 6000, 500))
def test_a_signal_at_any_moment_of_the_start_leaves_nothing(launch: Start, faults: int) -> None:
    """How far the launcher has come is told by its page faults: they count the same on a busy machine."""
    started = launch("--workers", "2", *program("stay", "die"), called=SCRIPT)
    stat = Path(f"/proc/{started.process.pid}/stat")
    while int(stat.read_text().rpartition(")")[2].split()[7]) < faults and b"ready" not in started.log("worker-1"):
        pass
    started.signal(signal.SIGINT)

    # as long as Python itself starts, it ends by 1; until the launcher has begun anything, by the signal itself
    assert started.wait() in ({130} if started.runs.exists() else {130, -signal.SIGINT, 1})
    assert not re.search(r"/launcher/(?!__main__)", started.stderr), "a traceback through our own imports"


def test_a_signal_in_the_settle_window_stops_the_run(launch: Start, cluster: Cluster) -> None:
    """A lost peer is no conclusive failure: the launcher waits for the peer itself to show."""
    complaint = "Collective ops is aborted by: Socket closed"
    script = f"""case "$TF_CONFIG" in *'"index": 1}}'*) echo {complaint!r}; exit 1;; esac; echo ready; sleep 1000"""
    started = launch(*cluster(), "--", "sh", "-c", script)
    started.await_log(b"ready", "worker-0")
    started.await_event("task_exited")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert started.run_state["state"] == "stopped"


def in_backoff(launch: Start, cluster: Cluster) -> Launch:
    started = launch(*cluster(restart={"max_restarts": 3, "backoff": "10m"}), "--", "sh", "-c", "exit 5")
    assert started.process.stderr is not None
    heard = b""
    while b"restarting all workers in" not in heard:
        heard += started.process.stderr.readline()
    return started


def test_a_signal_during_the_backoff_stops_the_run(launch: Start, cluster: Cluster) -> None:
    started = in_backoff(launch, cluster)
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert not (started.run_directory / "attempt-1").exists()


def test_an_agent_that_is_asked_during_the_backoff_for_the_end_of_the_run_stops_it(
    launch: Start, cluster: Cluster
) -> None:
    started = in_backoff(launch, cluster)
    started.named("launch-agent").send_signal(STOP_REQUEST)

    assert started.wait() == 128 + signal.SIGTERM
    assert "localhost was asked to end the run" in started.stderr
    assert not (started.run_directory / "attempt-1").exists()


def test_a_run_whose_console_is_stuck_can_be_stopped(launch: Start, cluster: Cluster) -> None:
    """Nobody reads stdout: the second signal gives the console up, as it gives up the workers."""
    started = launch(*cluster(), *program("flood", "400000", "done"))
    await_true((started.runs.parent / "done-worker-0").exists, "the end of the flood")
    await_true((started.runs.parent / "done-worker-1").exists, "the end of the flood")
    started.await_event("host_empty")
    started.signal(signal.SIGINT)
    started.signal(signal.SIGTERM)

    await_true(lambda: started.process.poll() is not None, "the launcher's end while nobody reads")


def test_a_run_whose_console_is_stuck_ends_its_workers_at_the_first_signal(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(), *program("flood", "3000000"))
    await_true(lambda: started.log_size("worker-1") > 4_000_000, "more output than fits anywhere but in the file")
    started.signal(signal.SIGTERM)
    started.await_event("host_empty")

    assert started.wait() == 143
    whole = sum(len(started.log(task).splitlines()) for task in ("worker-0", "worker-1"))
    assert started.raw_stdout.count(b"\n") == whole


# ---- at a terminal, under a shell
def at_terminal(environment: dict[str, str], tmp_path: Path, *arguments: str) -> pexpect.spawn:
    argv = ["-m", "launcher", "--run-dir", str(tmp_path / "runs"), *arguments]
    return pexpect.spawn(sys.executable, argv, env=environment, cwd=str(tmp_path), encoding="utf-8", timeout=PATIENCE)


def await_lines(tmp_path: Path, line: str) -> None:
    """Return once each worker has printed it; at the terminal the same line of both may be shown once."""
    logs = [tmp_path / "runs" / "latest" / "attempt-0" / f"worker-{n}.log" for n in (0, 1)]
    await_true(lambda: all(log.exists() and line in log.read_text() for log in logs), f"{line} of both workers")


def test_ctrl_c_at_a_terminal_reaches_each_worker_once(
    environment: dict[str, str], tmp_path: Path, cluster: Cluster
) -> None:
    options = cluster(timeouts={"failure_grace": "10s"})
    with at_terminal(environment, tmp_path, *options, *program("stay", "save")) as terminal:
        await_lines(tmp_path, "ready")
        terminal.sendintr()
        terminal.expect("Ctrl-C again kills at once")
        terminal.expect(pexpect.EOF)
        terminal.wait()

    assert terminal.exitstatus == 130
    for n in (0, 1):
        log = (tmp_path / "runs" / "latest" / "attempt-0" / f"worker-{n}.log").read_text()
        assert log.splitlines() == ["ready", "got SIGINT", "saved"]


def test_ctrl_c_twice_at_a_terminal_kills_at_once(
    environment: dict[str, str], tmp_path: Path, cluster: Cluster
) -> None:
    options = cluster(timeouts={"grace": "10m"})
    with at_terminal(environment, tmp_path, *options, *program("stay", "ignore")) as terminal:
        await_lines(tmp_path, "ready")
        terminal.sendintr()
        await_lines(tmp_path, "got SIGINT")
        terminal.sendintr()
        terminal.expect("SIGINT again: killing 2 workers")
        terminal.expect(pexpect.EOF)
        terminal.wait()

    assert terminal.exitstatus == 130


def test_ctrl_z_at_a_terminal_does_not_suspend_the_run(environment: dict[str, str], tmp_path: Path) -> None:
    script = "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo went on"
    with at_terminal(environment, tmp_path, "--workers", "1", "--", "sh", "-c", script) as terminal:
        terminal.expect("ready")
        terminal.sendcontrol("z")
        (tmp_path / "go").touch()
        terminal.expect("went on")
        terminal.expect(pexpect.EOF)
        terminal.wait()

    assert terminal.exitstatus == 0


def take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_closed_terminal_ends_the_run(launch: Start) -> None:
    terminal, side = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), side)
    started = launch("--workers", "2", *program("stay", "die"), preexec_fn=take_terminal, **streams)
    os.close(side)
    started.await_log(b"ready", "worker-0", "worker-1")
    os.close(terminal)

    assert started.wait() == 128 + signal.SIGHUP
    assert started.run_state["state"] == "stopped"


def test_a_run_in_the_background_of_a_script_outlives_a_hangup(
    launch: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    script = '"$@" & echo $!'
    started = launch(
        "--workers", "1", "--", "sh", "-c", "echo ready; while [ ! -e go ]; do sleep 0.01; done",
        under=("sh", "-c", script, "sh", "nohup"),
    )  # fmt: skip
    assert started.process.stdout is not None
    pid = int(started.process.stdout.readline())
    started.await_log(b"ready", "worker-0")
    os.kill(pid, signal.SIGHUP)
    (tmp_path / "go").touch()
    started.await_nothing_left()

    assert started.run_state["state"] == "done"


def test_workers_of_a_background_run_can_be_interrupted(launch: Start) -> None:
    """A shell without job control lets its background jobs ignore SIGINT, and that would be inherited."""
    started = launch("--workers", "1", *program("report"), under=("sh", "-c", '"$@" & wait $!', "sh", "nohup"))
    report = started.report()

    assert not int(report["ignored"], 16) & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGHUP - 1))


def test_each_worker_is_said_to_have_been_where_the_interrupt_found_it(launch: Start, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time\nprint('ready', flush=True)\ntime.sleep(1000)\n")
    started = launch("--workers", "2", "--", "train.py")
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    for worker in ("worker 0", "worker 1"):
        assert f"{worker} was at train.py:3" in started.stderr
    assert b"KeyboardInterrupt" in started.log("worker-0")
    assert {line.rpartition("] ")[2] for line in started.stdout.splitlines()} == {"ready"}


def test_a_run_in_the_background_of_a_terminal_may_write_there(launch: Start) -> None:
    terminal, side = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), side)
    script = 'stty tostop; set -m; "$@" & wait $!'
    words = ("--workers", "1", "--", "sh", "-c", "grep SigIgn /proc/self/status")
    started = launch(*words, under=("sh", "-c", script, "sh"), preexec_fn=take_terminal, **streams)
    os.close(side)

    assert started.wait() == 0
    assert not {signal.SIGTTOU, signal.SIGTTIN} & signals_of(started.log("worker-0").split()[1].decode())
    os.close(terminal)
